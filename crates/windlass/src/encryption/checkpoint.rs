use super::{
    bound::Bound,
    codec::{Codec, left_plain, open},
};
use windlass_core::{Args, Envelope, Error, ErrorKind, Result};
use windlass_runtime::{CheckpointSeal, Context};

/// Of encrypted jobs.
impl CheckpointSeal for Codec {
    fn seal(&self, plain: &Args, context: &Context) -> Result<Args> {
        match &self.keyring {
            Some(keyring) => keyring.seal(plain.as_str(), bound(context)),
            // Whoever opened the args has keys; args that were taken plain have none to begin with.
            None => {
                let message = format!("{} cannot be encrypted: there is no key", name(context));
                Err(Error::new(ErrorKind::Undecryptable, message))
            }
        }
    }

    fn open(&self, stored: &Args, context: &Context) -> Result<Vec<u8>> {
        let json = stored.as_str();
        if Envelope::is_one(json.as_bytes()) {
            return open(self.keyring.as_ref(), json, bound(context)).map_err(|why| why.error(name(context)));
        }
        match self.takes_plain_args {
            true => Ok(json.as_bytes().to_vec()), // from before the kind was encrypted
            false => Err(left_plain(name(context))),
        }
    }
}

fn bound(context: &Context) -> Bound<'_> {
    Bound::Checkpoint { kind: context.kind(), job: context.id() }
}

fn name(context: &Context) -> String {
    format!("the checkpoint of job {}", context.id())
}
