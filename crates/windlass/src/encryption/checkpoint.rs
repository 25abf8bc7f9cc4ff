use super::{
    bound::Bound,
    codec::{Codec, left_plain, open},
};
use windlass_core::{Args, Envelope, Error, ErrorKind, JobId, Result};
use windlass_runtime::{CheckpointSeal, Context};

/// Of encrypted jobs.
impl CheckpointSeal for Codec {
    fn seal(&self, plain: &Args, context: &Context) -> Result<Args> {
        self.seal_checkpoint(plain, context.kind(), context.id())
    }

    fn open(&self, stored: &Args, context: &Context) -> Result<Vec<u8>> {
        self.open_checkpoint(stored, context.kind(), context.id())
    }
}

impl Codec {
    pub(super) fn seal_checkpoint(&self, plain: &Args, kind: &str, job: JobId) -> Result<Args> {
        match &self.keyring {
            Some(keyring) => keyring.seal(plain.as_str(), Bound::Checkpoint { kind, job }),
            // Whoever opened the args has keys; args that were taken plain have none to begin with.
            None => {
                let message = format!("{} cannot be encrypted: there is no key", name(job));
                Err(Error::new(ErrorKind::Undecryptable, message))
            }
        }
    }

    pub(super) fn open_checkpoint(&self, stored: &Args, kind: &str, job: JobId) -> Result<Vec<u8>> {
        let json = stored.as_str();
        if Envelope::is_one(json.as_bytes()) {
            let bound = Bound::Checkpoint { kind, job };
            return open(self.keyring.as_ref(), json, bound).map_err(|why| why.error(name(job)));
        }
        match self.takes_plain_args {
            true => Ok(json.as_bytes().to_vec()), // from before the kind was encrypted
            false => Err(left_plain(name(job))),
        }
    }
}

fn name(job: JobId) -> String {
    format!("the checkpoint of job {job}")
}
