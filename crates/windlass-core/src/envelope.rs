use crate::{Args, Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What an envelope begins with. Nothing stands before it, not even a space: to look is to compare 16 bytes.
const START: &[u8] = br#"{"windlass.enc":"#;

/// Encrypted args or an encrypted result, as they are stored: JSON that says with which key it was sealed.
/// The format is specified in `docs/design/encryption.md`; here it is only recognised.
///
/// ```
/// use windlass_core::{Args, Envelope};
/// let sealed = r#"{"windlass.enc":{"v":1,"key":"k1","nonce":"bm9uY2U","data":"ZGF0YQ"}}"#;
/// assert_eq!(Envelope::parse(sealed).unwrap().unwrap().key, "k1");
/// assert!(Envelope::parse(r#"{"to":"ada"}"#).unwrap().is_none());
/// assert_eq!(Envelope::describe(&Args::parse(sealed)?).unwrap(), "[encrypted, key k1]");
/// # Ok::<(), windlass_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Envelope<'a> {
    /// The version of the format.
    #[serde(rename = "v")]
    pub version: u32,
    /// The id of the key that opens it. Of another version than [`Self::VERSION`] neither this nor what follows is read.
    #[serde(borrow, default)]
    pub key: Cow<'a, str>,
    /// The nonce, base64url.
    #[serde(borrow, default)]
    pub nonce: Cow<'a, str>,
    /// Ciphertext and tag, base64url.
    #[serde(borrow, default)]
    pub data: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outer<'a> {
    #[serde(borrow, rename = "windlass.enc")]
    envelope: &'a RawValue,
}

/// What every version has.
#[derive(Deserialize)]
struct Version {
    v: u32,
}

impl Envelope<'_> {
    /// The version that this build writes and reads.
    pub const VERSION: u32 = 1;
    /// What the error of an attempt begins with that could not begin, because the args cannot be decrypted.
    pub const UNDECRYPTABLE: &'static str = "undecryptable: ";
    /// The longest key id, in bytes.
    pub const MAX_KEY_ID_BYTES: usize = 64;

    /// Whether JSON text is an envelope, possibly a damaged one. Costs nothing.
    pub fn is_one(json: &[u8]) -> bool {
        json.starts_with(START)
    }

    /// Whether a text may name a key: 1 to 64 of letters, digits and `_ - .`.
    pub fn is_key_id(id: &str) -> bool {
        (1..=Self::MAX_KEY_ID_BYTES).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    }

    /// The envelope in JSON text; `None` when it is something else.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`] when it begins like an envelope and is none. The message shows nothing of it.
    pub fn parse(json: &str) -> Result<Option<Envelope<'_>>> {
        if !Self::is_one(json.as_bytes()) {
            return Ok(None);
        }
        // The parser's own words might quote what it read.
        let malformed = || Error::new(ErrorKind::InvalidArgs, "the encrypted envelope is malformed");
        let Outer { envelope } = serde_json::from_str(json).map_err(|_| malformed())?;
        let Version { v } = serde_json::from_str(envelope.get()).map_err(|_| malformed())?;
        if v != Self::VERSION {
            let unread = Cow::Borrowed("");
            return Ok(Some(Envelope {
                version: v,
                key: unread.clone(),
                nonce: unread.clone(),
                data: unread,
            }));
        }
        let envelope: Envelope<'_> = serde_json::from_str(envelope.get()).map_err(|_| malformed())?;
        if Self::is_key_id(&envelope.key) { Ok(Some(envelope)) } else { Err(malformed()) }
    }

    /// What lists show in place of encrypted args: `[encrypted, key k1]`; `None` when the args are not encrypted.
    pub fn describe(args: &Args) -> Option<String> {
        match Self::parse(args.as_str()) {
            Ok(None) => None,
            Ok(Some(envelope)) if envelope.version == Self::VERSION => {
                Some(format!("[encrypted, key {}]", envelope.key))
            }
            Ok(Some(envelope)) => Some(format!("[encrypted, version {}]", envelope.version)),
            Err(_) => Some("[encrypted, malformed]".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(json: &str) -> Option<String> {
        Envelope::describe(&Args::parse(json).unwrap())
    }

    #[test]
    fn lists_show_the_key_and_nothing_else() {
        let sealed = r#"{"windlass.enc": {"v": 1, "key": "k1", "data": "c2VjcmV0", "nonce": "bm8"}}"#;
        assert_eq!(described(sealed).unwrap(), "[encrypted, key k1]");
        assert_eq!(
            described(r#"{"windlass.enc":{"v":2,"key":["secret"]}}"#).unwrap(),
            "[encrypted, version 2]"
        );
        for odd in [
            "7",
            "{}",
            r#"{"v":1}"#,
            r#"{"v":1,"key":"\u001b[31m"}"#,
            r#"{"v":1,"key":"k1"},"args":"secret""#,
        ] {
            let told = described(&format!(r#"{{"windlass.enc":{odd}}}"#)).unwrap();
            assert_eq!(told, "[encrypted, malformed]", "{odd}");
        }
    }

    #[test]
    fn what_merely_mentions_it_is_plain() {
        for plain in [r#"{"a":1,"windlass.enc":{}}"#, r#"["windlass.enc"]"#, "1", r#"{"windlass.encoded":1}"#]
        {
            assert_eq!((described(plain), Envelope::is_one(plain.as_bytes())), (None, false), "{plain}");
        }
    }
}
