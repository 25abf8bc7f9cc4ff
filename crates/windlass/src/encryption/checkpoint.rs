use super::{
    bound::Bound,
    codec::{Codec, open},
};
use std::sync::Arc;
use windlass_core::{Args, Envelope, Error, ErrorKind, JobId, Result};
use windlass_runtime::CheckpointSeal;

/// Seals the checkpoints of one encrypted job.
pub(super) struct SealedCheckpoints {
    pub(super) codec: Arc<Codec>,
    pub(super) kind: Box<str>,
    pub(super) job: JobId,
}

impl SealedCheckpoints {
    fn bound(&self) -> Bound<'_> {
        Bound::Checkpoint { kind: &self.kind, job: self.job }
    }
}

impl CheckpointSeal for SealedCheckpoints {
    fn seal(&self, plain: &Args) -> Result<Args> {
        match self.codec.keyring() {
            Some(keyring) => keyring.seal(plain.as_str(), self.bound()),
            // Whoever opened the args has keys; args that were taken plain have none to begin with.
            None => Err(undecryptable(self.job, "cannot be encrypted: there is no key")),
        }
    }

    fn open(&self, stored: &Args) -> Result<Vec<u8>> {
        let what = format!("the checkpoint of job {}", self.job);
        if !Envelope::is_one(stored.as_str().as_bytes()) {
            if self.codec.takes_plain_args {
                return Ok(stored.as_str().as_bytes().to_vec()); // from before the kind was encrypted
            }
            return Err(undecryptable(
                self.job,
                "is plain, though its args are encrypted: no worker of it wrote that",
            ));
        }
        open(self.codec.keyring(), stored.as_str(), self.bound()).map_err(|why| why.error(what))
    }
}

fn undecryptable(job: JobId, why: &str) -> Error {
    Error::new(ErrorKind::Undecryptable, format!("the checkpoint of job {job} {why}"))
}
