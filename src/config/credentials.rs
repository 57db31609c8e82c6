//! The credentials of what the sidecar itself asks servers; a client's credentials are never used for that.

use http::HeaderValue;
use std::fs;
use std::io;
use std::path::Path;

/// What goes into `Authorization`; the value is marked sensitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials(HeaderValue);

impl Credentials {
    /// The user's Basic credentials, with the password of a file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn basic(username: &str, password_file: &Path) -> io::Result<Self> {
        let pair = format!("{username}:{}", read_secret(password_file)?);
        Self::header(&format!("Basic {}", base64(pair.as_bytes())))
    }

    /// The bearer token of a file.
    ///
    /// # Errors
    /// When the file cannot be read or its token is not one line of visible characters.
    pub fn bearer(token_file: &Path) -> io::Result<Self> {
        Self::header(&format!("Bearer {}", read_secret(token_file)?))
    }

    /// The value of the `Authorization` header.
    pub fn authorization(&self) -> HeaderValue {
        self.0.clone()
    }

    fn header(text: &str) -> io::Result<Self> {
        let mut value = HeaderValue::from_str(text)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "characters that no header can carry"))?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// Reads a file, without its final line break.
fn read_secret(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0, |group: u32, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let index = (group >> (18 - 6 * digit)) as usize & 63; // below 64, the alphabet's length
            text.push(if digit <= chunk.len() { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_test_vectors_of_rfc_4648() {
        let vectors = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, expected) in vectors.iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..length]), *expected);
        }
    }

    #[test]
    fn credentials_are_read_from_files_and_never_printed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        fs::write(&file, "s3cret\n").unwrap();
        let basic = Credentials::basic("me", &file).unwrap();
        assert_eq!(basic.authorization(), "Basic bWU6czNjcmV0");
        assert_eq!(Credentials::bearer(&file).unwrap().authorization(), "Bearer s3cret");
        assert!(!format!("{basic:?}").contains("bWU6"), "{basic:?}");
        fs::write(&file, "two\nlines").unwrap();
        assert_eq!(Credentials::bearer(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
