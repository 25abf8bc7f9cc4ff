use super::{OnOurDeath, Postgres, PostgresOptions, lock, run};
use crate::node::wait_for;
use anyhow::Result;
use std::fs::File;

/// What an acknowledged commit on the primary says about its standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// It is on the standby's disk; without the standby no commit is acknowledged.
    Sync,
    /// Nothing: it may be lost when the standby is promoted.
    Async,
}

impl Postgres {
    /// Makes a server that follows this one, with the same settings, and waits until it streams.
    ///
    /// # Errors
    /// When one of the two does not do its part.
    pub fn standby(&self, sync: Sync) -> Result<Self> {
        let mut standby = Self::empty(PostgresOptions { clock: self.clock.clone(), ..Default::default() })?;
        let name = format!("standby_{:08x}", fastrand::u32(..));
        let mut backup = standby.command("pg_basebackup", OnOurDeath::Stay);
        backup.args(["-X", "stream", "-c", "fast", "--no-sync", "-d", &self.url(), "-D"]).arg(standby.data());
        run(&mut backup)?;
        let signal = standby.data().join("standby.signal");
        File::create(&signal)?;
        super::give_to_server_user(&signal)?;
        let primary = format!("host=127.0.0.1 port={} user=postgres application_name={name}", self.port);
        let mut settings = lock(&self.settings).clone();
        settings.set(&[("primary_conninfo", &primary), ("synchronous_standby_names", "")]);
        *lock(&standby.settings) = settings;
        standby.first_start()?;

        let state = |wanted: &str| {
            let sql = format!(
                "SELECT sync_state FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming'"
            );
            wait_for("the standby streams", || Ok((self.sql(&sql)? == wanted).then_some(())))
        };
        state("async")?;
        if sync == Sync::Sync {
            self.reload(&[("synchronous_standby_names", &name)])?;
            state("sync")?;
        }
        Ok(standby)
    }

    /// Makes a standby a primary, and waits until it takes writes.
    ///
    /// # Errors
    /// When it is no standby or does not become a primary.
    pub fn promote(&self) -> Result<()> {
        if self.sql("SELECT pg_promote(true, 60)")? == "t" {
            return Ok(());
        }
        anyhow::bail!("the standby on port {} was not promoted in 60 s", self.port)
    }

    /// Waits until this standby shows what is committed on the primary now.
    ///
    /// # Errors
    /// When it does not get there.
    pub fn wait_until_caught_up(&self, primary: &Self) -> Result<()> {
        let position = primary.sql("SELECT pg_current_wal_lsn()")?;
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{position}'");
        wait_for("the standby catches up", || Ok((self.sql(&sql)? == "t").then_some(())))
    }
}
