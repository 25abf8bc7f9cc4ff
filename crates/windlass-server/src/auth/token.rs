use sha2::{Digest, Sha256};
use std::fmt::Write;
use subtle::ConstantTimeEq;
use windlass::{Error, ErrorKind, Result};

/// What tokens begin with, so that scanners of repositories find them.
const PREFIX: &str = "wl_";

/// A new token, which is shown once, and its hash, which is kept.
///
/// ```
/// let token = windlass_server::NewToken::generate()?;
/// assert_eq!((token.text.len(), token.sha256.len()), (67, 64));
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone)]
pub struct NewToken {
    /// What its owner sends: `Authorization: Bearer` and this.
    pub text: String,
    /// What the auth file has of it.
    pub sha256: String,
}

impl NewToken {
    /// Makes one of 256 random bits.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn generate() -> Result<Self> {
        let text = format!("{PREFIX}{}", hex(&random()?));
        let sha256 = hex(&Hash::of(&text).0);
        Ok(Self { text, sha256 })
    }
}

/// 256 random bits.
pub(crate) fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|cause| {
        Error::new(ErrorKind::Internal, format!("the system gives no random numbers: {cause}"))
    })?;
    Ok(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The SHA-256 of a token: as these are random, nothing slower is needed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hash([u8; 32]);

impl Hash {
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Reads 64 hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits: Vec<u8> =
            text.chars().map(|digit| digit.to_digit(16).map(|n| n as u8)).collect::<Option<_>>()?;
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect();
        if digits.len() == 64 { bytes.try_into().ok().map(Self) } else { None }
    }

    /// Whether both are the same, in the same time whether they are or not.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read_as_they_are_written() {
        let token = NewToken::generate().unwrap();
        let hash = Hash::parse(&token.sha256).unwrap();
        assert!(hash.is(&Hash::of(&token.text)) && !hash.is(&Hash::of("wl_")));
        for wrong in ["", "ab", &"g".repeat(64), &"a".repeat(65)] {
            assert!(Hash::parse(wrong).is_none(), "{wrong}");
        }
    }
}
