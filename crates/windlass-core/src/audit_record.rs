use crate::{AuditEntry, Error, ErrorKind, Result};
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use std::{fmt, str::FromStr};

/// The place of an entry in the log: entries written later have greater ones. As text it is opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditId {
    /// When it was written, in microseconds since 1970 by the store's clock.
    pub at: i64,
    /// Its number in the store.
    pub number: i64,
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at, self.number)
    }
}

impl FromStr for AuditId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('-').and_then(|(at, number)| {
            let id = Self { at: at.parse().ok()?, number: number.parse().ok()? };
            Timestamp::from_microsecond(id.at).is_ok().then_some(id)
        });
        parts.ok_or_else(|| {
            let text: String = text.chars().take(100).collect();
            let message =
                format!("{text:?} is not the id of an audit entry; take one from a page of the log");
            Error::new(ErrorKind::InvalidOption, message)
        })
    }
}

impl Serialize for AuditId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An entry as a store has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditRecord {
    /// Its place in the log.
    pub id: AuditId,
    /// When it was written, by the store's clock.
    pub at: Timestamp,
    /// What was done.
    #[serde(flatten)]
    pub entry: AuditEntry,
}

impl AuditRecord {
    /// An entry at its place.
    pub fn new(id: AuditId, entry: AuditEntry) -> Self {
        // Out of range only in a damaged store; shown as 1970 then.
        let at = Timestamp::from_microsecond(id.at).unwrap_or(Timestamp::UNIX_EPOCH);
        Self { id, at, entry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_text_and_back() {
        let id = AuditId { at: 1_700_000_000_000_000, number: 7 };
        assert_eq!(id.to_string().parse::<AuditId>().unwrap(), id);
        for nonsense in ["", "7", "-", "a-b", "1-2-3", "9223372036854775807-1"] {
            let error = nonsense.parse::<AuditId>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{nonsense}");
        }
    }
}
