use super::{OnOurDeath, Postgres, run};
use anyhow::Result;
use std::path::{Path, PathBuf};

impl Postgres {
    /// Has `pg_dump` write what an exported snapshot (`pg_export_snapshot`) shows, in its custom format. Answers the
    /// file, which goes with this server.
    ///
    /// # Errors
    /// What `pg_dump` says.
    pub fn dump(&self, snapshot: &str) -> Result<PathBuf> {
        let file = self.folder.path().join("dump");
        let mut dump = self.command("pg_dump", OnOurDeath::Stay);
        run(dump.args(["-Fc", "--snapshot", snapshot, "-d", &self.url(), "-f"]).arg(&file))?;
        Ok(file)
    }

    /// Has `pg_restore` bring the contents of a dump into this server.
    ///
    /// # Errors
    /// What `pg_restore` says.
    pub fn restore(&self, dump: &Path) -> Result<()> {
        let mut restore = self.command("pg_restore", OnOurDeath::Stay);
        run(restore.args(["--exit-on-error", "-d", &self.url()]).arg(dump)).map(drop)
    }
}
