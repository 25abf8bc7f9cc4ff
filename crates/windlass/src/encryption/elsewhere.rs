//! Encrypted jobs of workers that run elsewhere and have no keys.

use super::{bound::Bound, codec::Codec};
use crate::Client;
use bytes::Bytes;
use std::fmt;
use windlass_core::{Args, ClaimedJob, Envelope, Error, ErrorKind, Outcome, Result};

/// Opens what encrypted jobs hold for workers [elsewhere](crate::remote), and seals what these leave: for who hands jobs out, and may let such workers see what is in them.
pub struct Opener(Codec);

/// Shows no key.
impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

impl Client {
    /// What opens the encrypted jobs of workers elsewhere; `None` for a client without keys.
    pub fn opener(&self) -> Option<Opener> {
        let codec = Codec::new(Some(self.keyring.clone()?), false);
        codec.ok().map(Opener)
    }
}

impl Opener {
    /// Whether the args of this job are encrypted.
    pub fn is_encrypted(job: &ClaimedJob) -> bool {
        Envelope::is_one(&job.args)
    }

    /// The args of an encrypted job.
    ///
    /// # Errors
    /// What becomes of a job that does not open, by the rules for other workers.
    pub fn args(&self, job: &ClaimedJob) -> Result<Bytes, Outcome> {
        let attributes = job.attributes.as_deref();
        let meta = attributes.and_then(|attributes| attributes.meta.as_ref());
        let key = attributes.and_then(|attributes| attributes.key.as_deref());
        self.0.open_of(&job.args, job.id, &job.kind, meta, key)
    }

    /// The checkpoint that an attempt at an encrypted job left.
    ///
    /// # Errors
    /// [`ErrorKind::Undecryptable`] when it does not open, or is plain.
    pub fn checkpoint(&self, job: &ClaimedJob, stored: &Args) -> Result<Args> {
        let opened = self.0.open_checkpoint(stored, &job.kind, job.id)?;
        let no_text = |_| {
            let message = format!("the checkpoint of job {} is no text", job.id);
            Error::new(ErrorKind::Undecryptable, message)
        };
        Args::parse(std::str::from_utf8(&opened).map_err(no_text)?)
    }

    /// The checkpoint of an encrypted job, as it is stored.
    ///
    /// # Errors
    /// When it cannot be sealed.
    pub fn seal_checkpoint(&self, job: &ClaimedJob, plain: &Args) -> Result<Args> {
        self.0.seal_checkpoint(plain, &job.kind, job.id)
    }

    /// The result of an encrypted job, as it is stored.
    ///
    /// # Errors
    /// When it cannot be sealed.
    pub fn seal_result(&self, job: &ClaimedJob, plain: &Args) -> Result<Args> {
        match &self.0.keyring {
            Some(keyring) => keyring.seal(plain.as_str(), Bound::Result { kind: &job.kind, job: job.id }),
            None => Err(Error::new(ErrorKind::Undecryptable, "there is no key".to_owned())),
        }
    }
}
