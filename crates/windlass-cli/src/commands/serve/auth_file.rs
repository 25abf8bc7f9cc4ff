//! The auth file of a server that runs: read anew when it changes, and at SIGHUP.

use crate::failure::Outcome;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};
use windlass_server::{AuthFile, Server};

/// How often it is looked whether it changed.
const LOOK: Duration = Duration::from_secs(1);

/// By what it is seen that a file changed, also who may read it: when that was, its size, and which file it is. `None` while there is none.
type Stamp = Option<(i64, i64, u64, u64)>;

pub(super) struct Watched {
    path: PathBuf,
    stamp: Stamp,
}

impl Watched {
    /// The file, and what it says now.
    pub(super) fn read(path: &Path) -> Outcome<(Self, AuthFile)> {
        // Before it is read: what changes from here on is seen.
        let watched = Self { path: path.to_owned(), stamp: stamp(path) };
        Ok((watched, AuthFile::read(path)?))
    }

    /// Gives the server what the file says whenever that changes. A file that makes no sense changes nothing.
    pub(super) async fn follow(mut self, server: Server) -> Outcome<()> {
        let mut hangup = signal(SignalKind::hangup())?;
        loop {
            let is_asked = tokio::select! {
                hangup = hangup.recv() => hangup.is_some(),
                () = sleep(LOOK) => false,
            };
            let stamp = stamp(&self.path);
            if std::mem::replace(&mut self.stamp, stamp) == stamp && !is_asked {
                continue;
            }
            let taken = match AuthFile::read(&self.path) {
                Ok(file) => server.set_auth_file(file).await,
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                tracing::error!(%error, "the auth file is not taken; what it said before holds");
            } else {
                tracing::info!(path = %self.path.display(), "the auth file was read anew");
            }
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.ctime(), metadata.ctime_nsec(), metadata.len(), metadata.ino()))
}
