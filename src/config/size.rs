//! Sizes in bytes.

use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// The units, largest first, so that printing takes the first that divides.
const UNITS: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A number of bytes, written `512B`, `64KiB`, `1MiB` or `2GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ByteSize(usize);

impl ByteSize {
    /// A size of so many bytes.
    pub const fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let size = UNITS
            .iter()
            .find(|(name, _)| *name == unit.trim_start())
            .and_then(|(_, factor)| number.parse::<usize>().ok()?.checked_mul(*factor));
        size.map(Self).ok_or_else(|| format!("{text:?} is not a size such as 512B, 64KiB, 1MiB or 2GiB"))
    }
}

impl TryFrom<String> for ByteSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, factor)| self.0 != 0 && self.0.is_multiple_of(*factor));
        let (name, factor) = unit.unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed() {
        for (text, bytes) in [("0B", 0), ("512B", 512), ("64KiB", 65_536), ("1MiB", 1 << 20), ("2GiB", 2 << 30)] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(size.bytes(), bytes);
            assert_eq!(size.to_string(), text);
        }
        assert_eq!("64 KiB".parse(), Ok(ByteSize::new(65_536)));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "64", "KiB", "-1KiB", "1.5MiB", "64KB", "64kib", "99999999999999GiB", "1KiB "] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
