use super::{bound::Bound, keyring::Keyring, missing_keys::MissingKeys, unopened::Unopened};
use bytes::Bytes;
use serde::Deserialize;
use std::fmt::Display;
use tracing::warn;
use windlass_core::{Args, Envelope, Error, ErrorKind, JobId, Outcome, Result};
use windlass_runtime::Context;

/// What a worker opens args and seals results with.
#[derive(Default)]
pub(crate) struct Codec {
    pub(super) keyring: Option<Keyring>,
    missing: MissingKeys,
    /// Whether an encrypted kind may have plain args.
    pub(super) takes_plain_args: bool,
}

impl Codec {
    pub(crate) fn new(keyring: Option<Keyring>, takes_plain_args: bool) -> Result<Self> {
        if takes_plain_args && keyring.is_none() {
            let message = "accept_plain_args is for encrypted kinds, and the client has no keys; give it some by with_keyring";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        Ok(Self { keyring, missing: MissingKeys::default(), takes_plain_args })
    }

    /// Opens a job's args, or says what becomes of the job.
    pub(super) fn open(&self, args: &[u8], context: &Context) -> Result<Bytes, Outcome> {
        self.open_of(args, context.id(), context.kind(), context.meta(), context.key())
    }

    pub(super) fn open_of(
        &self,
        args: &[u8],
        id: JobId,
        kind: &str,
        meta: Option<&Args>,
        key: Option<&str>,
    ) -> Result<Bytes, Outcome> {
        let bound = Bound::Args { kind, binding: &binding(meta), key };
        let opened = std::str::from_utf8(args)
            .map_err(|_| Unopened::Malformed)
            .and_then(|json| open(self.keyring.as_ref(), json, bound));
        opened.map(Bytes::from).map_err(|why| self.unopened(&why, id, kind))
    }

    /// What may open elsewhere waits. What cannot be right is dead, and stays readable.
    fn unopened(&self, why: &Unopened, id: JobId, kind: &str) -> Outcome {
        if !why.may_open_elsewhere() {
            return Outcome::Discard(format!("{}{why}", Envelope::UNDECRYPTABLE));
        }
        let error = format!("{}{why}; the job waits for a worker that can open it", Envelope::UNDECRYPTABLE);
        let (after, is_news) = self.missing.delay(&why.to_string());
        if is_news {
            warn!(%id, kind, %why, "a job cannot be decrypted and waits; so will all like it");
        }
        Outcome::Undecryptable { after, error }
    }

    /// Seals what an encrypted job returns.
    pub(super) fn seal_result(&self, outcome: Outcome, context: &Context) -> Outcome {
        let Outcome::Complete(Some(result)) = outcome else { return outcome };
        let bound = Bound::Result { kind: context.kind(), job: context.id() };
        let sealed = self.keyring.as_ref().map(|keyring| keyring.seal(result.as_str(), bound));
        match sealed {
            Some(Ok(sealed)) => Outcome::Complete(Some(sealed)),
            Some(Err(error)) => failed(format!("the result cannot be encrypted: {error}")),
            // Whoever opened the args has keys.
            None => failed("the result cannot be encrypted: there is no key".to_owned()),
        }
    }
}

fn failed(error: String) -> Outcome {
    Outcome::Retry { after: None, error }
}

/// Opens an envelope with the keys that there are.
pub(super) fn open(keyring: Option<&Keyring>, json: &str, bound: Bound<'_>) -> Result<Vec<u8>, Unopened> {
    let envelope = Envelope::parse(json).ok().flatten().ok_or(Unopened::Malformed)?;
    if envelope.version != Envelope::VERSION {
        return Err(Unopened::UnknownVersion(envelope.version));
    }
    match keyring {
        Some(keyring) => keyring.open(&envelope, bound),
        None => Err(Unopened::UnknownKey(envelope.key.into_owned())),
    }
}

/// What a handler left is plain, though the job's args are encrypted.
pub(super) fn left_plain(what: impl Display) -> Error {
    let message = format!("{what} is plain, though its args are encrypted: no worker of it wrote that");
    Error::new(ErrorKind::Undecryptable, message)
}

/// The field of a job's meta that binds its args to it.
pub(super) const BINDING: &str = "windlass.enc";

#[derive(Deserialize)]
struct Meta {
    #[serde(default, rename = "windlass.enc")]
    binding: String,
}

/// What binds a job's args to it; empty when nothing does.
pub(super) fn binding(meta: Option<&Args>) -> String {
    meta.and_then(|meta| serde_json::from_str(meta.as_str()).ok())
        .map_or_else(String::new, |meta: Meta| meta.binding)
}
