//! Temporary folders that the next run removes when this one could not.

use super::programs;
use anyhow::{Context, Result};
use std::{fs::File, os::unix::fs::PermissionsExt, path::Path, process::Command, sync::Once, time::Duration};

const PREFIX: &str = "windlass-node-";
/// Locked by the process that the folder belongs to, so that a lock to be had means that it is gone.
const OWNER: &str = "owner";
/// Where a [`super::Tmpfs`] is mounted in its folder.
pub(crate) const MOUNT: &str = "mount";
/// A folder this young may be one whose owner has not locked it yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder of ours, removed on drop.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
    _owner: File,
}

impl Folder {
    pub(crate) fn new(parent: Option<&Path>) -> Result<Self> {
        static SWEEP: Once = Once::new();
        SWEEP.call_once(sweep);
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent);
        let folder = folder.with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        let owner = File::create(folder.path().join(OWNER))?;
        owner.lock()?;
        // Others than we read here: the servers' user.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755))?;
        programs::give_to_server_user(folder.path())?;
        Ok(Self { folder, _owner: owner })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes what runs left that were killed. Their servers are gone: the kernel told them.
fn sweep() {
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let folder = entry.path();
        if is_abandoned(&folder).unwrap_or(false) {
            unmount(&folder.join(MOUNT));
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn is_abandoned(folder: &Path) -> std::io::Result<bool> {
    let owner = File::open(folder.join(OWNER))?;
    let age = owner.metadata()?.modified()?.elapsed().unwrap_or_default();
    Ok(age > YOUNG && owner.try_lock().is_ok())
}

/// Also when somebody still has a file open there.
pub(crate) fn unmount(place: &Path) {
    if programs::is_root() && place.exists() {
        let _ = programs::run(Command::new("umount").arg("-l").arg(place));
    }
}
