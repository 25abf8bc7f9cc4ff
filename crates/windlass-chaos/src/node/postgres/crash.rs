use super::{Identity, Postgres, Running, clock, lock, proc_table, run};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// How long a backend without a postmaster may take to see that before it is killed.
const ORPHANS_MAY_STAY: Duration = Duration::from_secs(5);

impl Postgres {
    /// SIGKILL of the postmaster. Its backends see that sooner or later and end; until then they may go on
    /// with their statements and even commit. [`Self::start_again`] waits for them.
    ///
    /// # Errors
    /// When it is not running.
    pub fn kill_postmaster(&self) -> Result<()> {
        kill(&mut lock(&self.running))
    }

    /// SIGKILL of a backend of a client, which one by `random`; the server then ends all sessions and recovers.
    /// Answers its number; `None` when there is no client.
    ///
    /// # Errors
    /// When the server is not running.
    pub fn kill_backend(&self, random: &mut fastrand::Rng) -> Result<Option<i32>> {
        let mut clients = self.backends()?;
        if clients.is_empty() {
            return Ok(None);
        }
        let victim = clients.swap_remove(random.usize(..clients.len()));
        victim.signal(Signal::KILL)?;
        Ok(Some(victim.pid))
    }

    /// SIGSTOP of a backend of a client, which one by `random`: a server that hangs. Answers its number, for
    /// [`Self::cont_backend`].
    ///
    /// # Errors
    /// When the server is not running.
    pub fn stop_backend(&self, random: &mut fastrand::Rng) -> Result<Option<i32>> {
        let mut clients = self.backends()?;
        if clients.is_empty() {
            return Ok(None);
        }
        let victim = clients.swap_remove(random.usize(..clients.len()));
        victim.signal(Signal::STOP)?;
        Ok(Some(victim.pid))
    }

    /// SIGCONT to a backend of [`Self::stop_backend`]; nothing when it has ended.
    ///
    /// # Errors
    /// When the server is not running.
    pub fn cont_backend(&self, pid: i32) -> Result<()> {
        let backends = self.backends()?;
        backends.into_iter().find(|backend| backend.pid == pid).map_or(Ok(()), |it| it.signal(Signal::CONT))
    }

    /// The processes that serve clients, by number.
    fn backends(&self) -> Result<Vec<Identity>> {
        let mut running = lock(&self.running);
        let postmaster = running.postmaster.as_mut().context("PostgreSQL is not running")?;
        if let Some(status) = postmaster.try_wait()? {
            bail!("PostgreSQL has ended: {status}");
        }
        let mut children = proc_table::children(Pid::from_child(postmaster).as_raw_nonzero().get())?;
        children.retain(|child| child.title().contains(" 127.0.0.1("));
        Ok(children)
    }
}

fn kill(running: &mut Running) -> Result<()> {
    let mut child = running.postmaster.take().context("PostgreSQL is not running")?;
    let pid = Pid::from_child(&child);
    // It stands still meanwhile, so that it starts no backend that we do not know.
    kill_process(pid, Signal::STOP)?;
    running.orphans = proc_table::children(pid.as_raw_nonzero().get())?;
    child.kill()?;
    child.wait()?;
    clock::forget(child.id());
    Ok(())
}

/// A postmaster that does not go when it is told to go at once, though it kills its children after five seconds: seen once.
/// What it waited for is said, and all are killed: a crash is a crash.
pub(super) fn kill_stuck(running: &mut Running) -> Result<()> {
    let pid = running.postmaster.as_ref().map_or(0, std::process::Child::id);
    let children = proc_table::children(pid.try_into()?)?;
    let titles: Vec<String> = children.iter().map(|child| child.title()).collect();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let of_interest =
        |line: &&str| line.starts_with("State") || line.starts_with("Sig") || line.starts_with("Shd");
    let state: Vec<&str> = status.lines().filter(of_interest).collect();
    eprintln!("PostgreSQL ({pid}) does not stop and is killed; {state:?}; its processes: {titles:?}");
    kill(running)?;
    running.orphans.iter().try_for_each(|orphan| orphan.signal(Signal::KILL))
}

/// Waits until they are gone: a new postmaster does not start beside them. One that computes never looks
/// whether it has a postmaster, and is killed in the end.
pub(super) fn bury(orphans: &mut Vec<Identity>) -> Result<()> {
    let end = Instant::now() + ORPHANS_MAY_STAY;
    while orphans.iter().any(|orphan| orphan.is_alive()) {
        if Instant::now() > end {
            orphans.iter().try_for_each(|orphan| orphan.signal(Signal::KILL))?;
        }
        if Instant::now() > end + ORPHANS_MAY_STAY {
            bail!("backends of a killed postmaster do not go: {orphans:?}");
        }
        std::thread::sleep(super::POLL);
    }
    orphans.clear();
    Ok(())
}

/// Frees the segment of System V shared memory by which postmasters know each other, when a killed one has
/// left its file with the number of it and no other will start there.
pub(super) fn free_shared_memory(data: &Path) {
    let text = std::fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    if let Some(segment) = text.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
        let _ = run(Command::new("ipcrm").args(["-m", segment]));
    }
}
