use super::{
    folder::{Folder, MOUNT, unmount},
    programs,
};
use anyhow::{Context, Result, bail};
use std::{
    fs::File,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    process::Command,
};

/// A small disk in memory that can be made full, for [`super::PostgresOptions::folder`]. Unmounted on drop;
/// drop what lives on it first.
pub struct Tmpfs {
    place: PathBuf,
    bytes: u64,
    _folder: Folder,
}

impl Tmpfs {
    /// Whether this process may mount: root, outside of most containers.
    #[must_use]
    pub fn available() -> bool {
        programs::is_root() && Self::mount(1 << 20).is_ok()
    }

    /// A new disk of that size.
    ///
    /// # Errors
    /// When the kernel refuses to mount.
    pub fn mount(bytes: u64) -> Result<Self> {
        let folder = Folder::new(None)?;
        let place = folder.path().join(MOUNT);
        std::fs::create_dir(&place)?;
        let options = format!("size={bytes},mode=0777");
        programs::run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "windlass"]).arg(&place))?;
        Ok(Self { place, bytes, _folder: folder })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Takes all the space that is left, until [`Self::free`]. Answers how much that was.
    ///
    /// # Errors
    /// When writing fails for another reason than a full disk.
    pub fn fill(&self) -> Result<u64> {
        const BLOCK: [u8; 4096] = [0x5a; 4096];
        let mut file = File::options().create(true).append(true).open(self.ballast())?;
        let mut taken = 0;
        while taken <= self.bytes {
            match file.write(&BLOCK) {
                Ok(bytes) => taken += bytes as u64,
                Err(cause) if cause.kind() == ErrorKind::StorageFull => return Ok(taken),
                Err(cause) => return Err(cause).context("cannot fill the disk"),
            }
        }
        bail!("the disk of {} bytes does not get full", self.bytes)
    }

    /// Gives the space back.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn free(&self) -> Result<()> {
        match std::fs::remove_file(self.ballast()) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => Err(cause).context("cannot free the disk"),
            _ => Ok(()),
        }
    }

    fn ballast(&self) -> PathBuf {
        self.place.join("ballast")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        unmount(&self.place);
    }
}
