use super::folder::Folder;
use anyhow::{Context, Result};
use std::{
    ffi::OsString,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

/// A wall clock of its own for the programs that it is given to, by libfaketime. It may be moved while they
/// run; the monotonic clock stays true.
#[derive(Clone)]
pub struct Clock {
    library: PathBuf,
    folder: Arc<Folder>,
}

impl Clock {
    /// Whether libfaketime is installed.
    #[must_use]
    pub fn available() -> bool {
        library().is_some()
    }

    /// A clock that shows the true time until it is moved.
    ///
    /// # Errors
    /// Without libfaketime.
    pub fn new() -> Result<Self> {
        let library = library().context("libfaketime is not installed; run `make deps`")?;
        let clock = Self { library, folder: Arc::new(Folder::new(None)?) };
        clock.move_to(0.0)?;
        Ok(clock)
    }

    /// Moves the clock to so many seconds after (or, negative, before) the true time, at once for all programs
    /// that have it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn move_to(&self, seconds: f64) -> Result<()> {
        let (new, file) = (self.folder.path().join("new"), self.file());
        std::fs::write(&new, format!("{seconds:+}\n"))?;
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o644))?;
        std::fs::rename(new, file).context("cannot move the clock") // readers see the old or the new text
    }

    /// Sets the environment of a program that shall live by this clock.
    pub fn give_to(&self, command: &mut Command) {
        command.envs(self.environment());
    }

    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, OsString)> {
        let on = ["FAKETIME_DONT_FAKE_MONOTONIC", "FAKETIME_NO_CACHE", "NO_FAKE_STAT"]
            .map(|name| (name, "1".into()));
        let files =
            [("LD_PRELOAD", self.library.clone().into()), ("FAKETIME_TIMESTAMP_FILE", self.file().into())];
        on.into_iter().chain(files)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}

/// Where Debian's package puts it, on any architecture.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let folders = folders.chain([Path::new("/usr/lib").into(), Path::new("/usr/local/lib").into()]);
    folders.map(|folder| folder.join("faketime/libfaketime.so.1")).find(|file| file.exists())
}

/// Removes what libfaketime leaves of a process that was killed.
pub(crate) fn forget(pid: u32) {
    for name in ["faketime_shm_", "sem.faketime_sem_"] {
        let _ = std::fs::remove_file(format!("/dev/shm/{name}{pid}"));
    }
}
