use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// How often who waits looks whether it is open.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Where handlers of a run wait for each other, so that the run sees how many there are at once: a folder with a file for each, and one more when it is open.
#[derive(Clone, Debug)]
pub(crate) struct Gate(PathBuf);

impl Gate {
    /// That of the run whose histories are in this folder.
    pub(crate) fn of(folder: &Path) -> Self {
        Self(folder.join("gate"))
    }

    /// Who comes has to wait.
    pub(crate) fn shut(&self) -> std::io::Result<()> {
        fs::create_dir_all(&self.0)
    }

    /// Who waits goes on, and nobody waits any more.
    pub(crate) fn open(&self) -> std::io::Result<()> {
        fs::write(self.0.join("open"), "")
    }

    /// How many jobs have come to it while it is shut.
    pub(crate) fn waiting(&self) -> std::io::Result<usize> {
        Ok(fs::read_dir(&self.0)?.count())
    }

    /// Returns when it is open.
    pub(super) async fn pass(&self, job: i64) -> std::io::Result<()> {
        let open = self.0.join("open");
        if !open.exists() {
            fs::write(self.0.join(job.to_string()), "")?;
        }
        while !open.exists() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}
