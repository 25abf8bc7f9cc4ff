use std::fmt;
use windlass_core::{Envelope, Error, ErrorKind};

/// Why an envelope did not open. The words tell nothing of what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "encryption"), allow(dead_code, reason = "nothing is opened"))]
pub(crate) enum Unopened {
    /// Somebody else may have the key.
    UnknownKey(String),
    /// Somebody else may know the format.
    UnknownVersion(u32),
    Malformed,
    /// It was changed, belongs to something else, or was sealed with another key of this id.
    NotAuthentic(String),
}

impl Unopened {
    /// Whether another worker, or this one with other keys, may open it.
    pub(crate) fn may_open_elsewhere(&self) -> bool {
        matches!(self, Self::UnknownKey(_) | Self::UnknownVersion(_))
    }

    /// As the error of a caller who asked for what is in it.
    pub(crate) fn error(&self, what: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Undecryptable, format!("{what} cannot be decrypted: {self}"))
    }
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey(key) => write!(f, "key {key} is not in the keyring"),
            Self::UnknownVersion(version) => {
                write!(f, "envelope version {version} is unknown; this program knows {}", Envelope::VERSION)
            }
            Self::Malformed => f.write_str("the envelope is malformed"),
            Self::NotAuthentic(key) => write!(
                f,
                "the envelope was changed, belongs to another job, or was sealed with another key than the one that \
                 is called {key} here"
            ),
        }
    }
}
