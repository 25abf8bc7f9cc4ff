//! The keys of encrypted jobs: from a file or the environment, never from the command line, which everybody on the machine can read.

use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
};
use std::{fs, os::unix::fs::MetadataExt, path::Path};
use windlass::{Client, Keyring};

/// Where keys can be that are in no file.
const VARIABLE: &str = "WINDLASS_KEYS";

impl Globals {
    /// The client with the user's keys, if there are any.
    pub(crate) fn with_keys(&self, client: Client) -> Outcome<Client> {
        Ok(match self.keys()? {
            Some(keys) => client.with_keyring(keys),
            None => client,
        })
    }

    /// What encrypts needs a key.
    pub(crate) fn check_keys(&self, option: &str) -> Outcome {
        match self.keys()? {
            Some(_) => Ok(()),
            None => {
                let message =
                    format!("{option} needs keys: name a file with --keys-file, or put them into {VARIABLE}");
                Err(Failure::usage("invalid_option", message))
            }
        }
    }

    fn keys(&self) -> Outcome<Option<Keyring>> {
        let in_environment = std::env::var_os(VARIABLE).is_some_and(|keys| !keys.is_empty());
        match &self.keys_file {
            Some(path) if in_environment => {
                Err(refused(path, &format!("{VARIABLE} has keys, too; use one of them")))
            }
            Some(path) => read(path).map(Some),
            None if in_environment => Ok(Some(Keyring::from_env(VARIABLE)?)),
            None => Ok(None),
        }
    }
}

/// A key a line; what begins with # is a comment.
fn read(path: &Path) -> Outcome<Keyring> {
    let metadata = fs::metadata(path).map_err(|error| refused(path, &error.to_string()))?;
    // Of a file that is root's a group may read, as of the auth file: so Kubernetes and systemd hand secrets to a service.
    let too_much = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & too_much != 0 {
        return Err(refused(path, "others may read or write it; run `chmod 600` on it"));
    }
    let text = fs::read_to_string(path).map_err(|error| refused(path, &error.to_string()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys = lines.collect::<Vec<_>>().join(",");
    Keyring::parse(&keys).map_err(|error| refused(path, &format!("holds no keys: {error}")))
}

fn refused(path: &Path, what: &str) -> Failure {
    Failure::usage("invalid_option", format!("keys file {}: {what}", path.display()))
}
