//! Options with a few named values.

use std::fmt;

/// Defines an enum whose values are written as the given words.
macro_rules! choice {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
        #[serde(try_from = "String")]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// The word of the configuration.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::config::NotAChoice;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::config::NotAChoice { word: word.to_owned(), choices: &[$($word),+] }),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::config::NotAChoice;

            fn try_from(word: String) -> Result<Self, Self::Error> {
                word.parse()
            }
        }
    };
}

pub(super) use choice;

/// A word that is none of the choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAChoice {
    /// The word.
    pub word: String,
    /// What it could have been.
    pub choices: &'static [&'static str],
}

impl fmt::Display for NotAChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is none of \"{}\"", self.word, self.choices.join("\", \""))
    }
}

impl std::error::Error for NotAChoice {}
