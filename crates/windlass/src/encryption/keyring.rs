use super::{bound::Bound, key_text, unopened::Unopened};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use std::{fmt, sync::Arc};
use windlass_core::{Args, Envelope, Error, ErrorKind, Result};

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const BINDING_BYTES: usize = 16;

/// The keys that args and results are encrypted with: XChaCha20-Poly1305, 32 bytes each, by id.
///
/// The first key is the current one: it seals. All of them open. To rotate, give every program the new key as a
/// further one, then make it the first, and drop the old one when no job needs it any more.
///
/// Cheap to clone; the keys are wiped from memory with the last clone. `Debug` shows their ids.
///
/// ```
/// use windlass::Keyring;
/// # fn main() -> windlass::Result<()> {
/// let keys = Keyring::new("2026-11", [7; 32])?.with_key("2025-11", [3; 32])?;
/// assert_eq!(keys.ids().collect::<Vec<_>>(), ["2026-11", "2025-11"]);
/// assert_eq!(format!("{keys:?}"), r#"Keyring(["2026-11", "2025-11"])"#);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Keyring {
    /// The current one first; never empty.
    keys: Arc<Vec<NamedKey>>,
}

#[derive(Clone)]
struct NamedKey {
    id: String,
    /// Wiped when it is dropped.
    cipher: XChaCha20Poly1305,
}

impl Keyring {
    /// The bytes of a key.
    pub const KEY_BYTES: usize = 32;

    /// A keyring of one key, which seals and opens. Ids are 1 to 64 of letters, digits and `_ - .`, and are stored with
    /// every job that they seal; a key's id must never be given to another key.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for a bad id, or a key of another size.
    pub fn new(id: impl Into<String>, key: impl AsRef<[u8]>) -> Result<Self> {
        Self { keys: Arc::new(Vec::new()) }.with_key(id, key)
    }

    /// Adds a key that only opens.
    ///
    /// # Errors
    /// As [`Self::new`], also for an id that is there already.
    pub fn with_key(mut self, id: impl Into<String>, key: impl AsRef<[u8]>) -> Result<Self> {
        let (id, key) = (id.into(), key.as_ref());
        // What is no id may be a key, given in the wrong place: it is not repeated.
        if !Envelope::is_key_id(&id) {
            let most = Envelope::MAX_KEY_ID_BYTES;
            return Err(refused(format!(
                "a key id must be 1 to {most} of letters, digits and _ - ., got {} bytes of something else",
                id.len()
            )));
        }
        if self.find(&id).is_some() {
            return Err(refused(format!("key {id} is given twice; keep one")));
        }
        let Ok(key) = <&Key>::try_from(key) else {
            let (size, got) = (Self::KEY_BYTES, key.len());
            return Err(refused(format!("key {id} must be {size} bytes, got {got}")));
        };
        Arc::make_mut(&mut self.keys).push(NamedKey { id, cipher: XChaCha20Poly1305::new(key) });
        Ok(self)
    }

    /// Reads keys as a secret store keeps them: `ID:BASE64`, or several with commas between, the current one first.
    /// Base64 of either alphabet, padded or not: `openssl rand -base64 32` makes a key.
    ///
    /// ```
    /// # use windlass::Keyring;
    /// let keys = Keyring::parse("k2:h8TPLyzJ6vyEJZwWVDkAQ8N7ZpeJ65cZ2PLlgNHTfnI=, k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")?;
    /// assert_eq!(keys.ids().next(), Some("k2"));
    /// # Ok::<(), windlass::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`]; the message says which key is wrong and shows nothing of it.
    pub fn parse(text: &str) -> Result<Self> {
        let none = Self { keys: Arc::new(Vec::new()) };
        text.split(',').enumerate().try_fold(none, |keys, (index, entry)| {
            let named = |error: Error| refused(format!("key number {} cannot be used: {error}", index + 1));
            let (id, key) = key_text::read(entry).map_err(named)?;
            keys.with_key(id, &key).map_err(named)
        })
    }

    /// Reads an environment variable as [`Self::parse`] does.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], also when the variable is not set.
    pub fn from_env(variable: &str) -> Result<Self> {
        let named = |what: String| refused(format!("environment variable {variable} {what}"));
        let text = std::env::var_os(variable)
            .ok_or_else(|| named("is not set; it has to hold keys like ID:BASE64,ID:BASE64".to_owned()))?;
        let text = text.into_string().map_err(|_| named("is not UTF-8".to_owned()))?;
        let text = zeroize::Zeroizing::new(text);
        Self::parse(&text).map_err(|error| named(format!("holds no keys: {error}")))
    }

    /// The ids of the keys, the current one first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.id.as_str())
    }

    fn find(&self, id: &str) -> Option<&NamedKey> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Seals JSON text with the current key.
    pub(super) fn seal(&self, text: &str, bound: Bound<'_>) -> Result<Args> {
        self.keys[0].seal(&random::<NONCE_BYTES>()?, text, bound)
    }

    pub(super) fn open(&self, envelope: &Envelope<'_>, bound: Bound<'_>) -> Result<Vec<u8>, Unopened> {
        let key = self.find(&envelope.key).ok_or_else(|| Unopened::UnknownKey(envelope.key.to_string()))?;
        key.open(envelope, bound)
    }

    pub(super) fn new_binding(&self) -> Result<String> {
        Ok(BASE64.encode(random::<BINDING_BYTES>()?))
    }
}

impl NamedKey {
    fn seal(&self, nonce: &[u8; NONCE_BYTES], text: &str, bound: Bound<'_>) -> Result<Args> {
        let payload = Payload { msg: text.as_bytes(), aad: &bound.associated_data(&self.id) };
        let too_long = |_| Error::new(ErrorKind::InvalidArgs, "what is to be encrypted is too long");
        let data = self.cipher.encrypt(&XNonce::from(*nonce), payload).map_err(too_long)?;
        let (version, id) = (Envelope::VERSION, &self.id);
        let (nonce, data) = (BASE64.encode(nonce), BASE64.encode(data));
        Args::parse(&format!(
            r#"{{"windlass.enc":{{"v":{version},"key":"{id}","nonce":"{nonce}","data":"{data}"}}}}"#
        ))
    }

    fn open(&self, envelope: &Envelope<'_>, bound: Bound<'_>) -> Result<Vec<u8>, Unopened> {
        let decoded = |text: &str| BASE64.decode(text).map_err(|_| Unopened::Malformed);
        let (nonce, data) = (decoded(&envelope.nonce)?, decoded(&envelope.data)?);
        let nonce = <&XNonce>::try_from(&nonce[..]).map_err(|_| Unopened::Malformed)?;
        if data.len() < TAG_BYTES {
            return Err(Unopened::Malformed);
        }
        let payload = Payload { msg: &data, aad: &bound.associated_data(&self.id) };
        self.cipher.decrypt(nonce, payload).map_err(|_| Unopened::NotAuthentic(self.id.clone()))
    }
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|cause| {
        Error::new(ErrorKind::Internal, format!("the system gave no random bytes: {cause}"))
    })?;
    Ok(bytes)
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keyring").field(&self.ids().collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
#[path = "vectors.rs"]
mod vectors;
