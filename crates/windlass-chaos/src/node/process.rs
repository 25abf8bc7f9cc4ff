//! Children that a run kills, stops and starves.

use super::{PATIENCE, POLL, clock, nursery, proc_table};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus},
    time::{Duration, Instant},
};

/// A child, killed on drop.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts it. Its standard streams are as the command says; [`super::Clock::give_to`] gives it a clock.
    /// For a `tokio::process::Command` pass what `into_std` answers.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(command: Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        Ok(Self { child: nursery::spawn(command)?, name })
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its piped output, once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its piped error output, once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Its piped input, once.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// SIGKILL, and waits for its end.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.child.kill().with_context(|| format!("cannot kill {}", self.name))?;
        Ok(self.child.wait()?)
    }

    /// SIGSTOP: it stands still until [`Self::cont`], with its connections open.
    ///
    /// # Errors
    /// When it has ended.
    pub fn stop(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cont(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM, without waiting; see [`Self::wait`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn term(&mut self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// How it ended, `None` while it runs.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it still runs after `patience`.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        self.wait_doing(patience, || Ok(()))
    }

    /// The same, and does this all the time meanwhile.
    ///
    /// # Errors
    /// When it still runs after `patience`, and those of `meanwhile`.
    pub fn wait_doing(
        &mut self,
        patience: Duration,
        mut meanwhile: impl FnMut() -> Result<()>,
    ) -> Result<ExitStatus> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > end {
                bail!("{} still runs after {} s", self.name, patience.as_secs());
            }
            meanwhile()?;
            std::thread::sleep(POLL);
        }
    }

    /// Bytes that it holds in memory now.
    ///
    /// # Errors
    /// When it has ended.
    pub fn rss_bytes(&self) -> Result<u64> {
        proc_table::rss_bytes(self.child.id())
    }

    /// Lets its heap and stacks have so many bytes in all from now on (RLIMIT_DATA): what it asks for beyond
    /// is refused, by which a Rust program aborts.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cap_memory(&mut self, bytes: u64) -> Result<()> {
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        prlimit(Some(self.living()?), Resource::Data, limit)
            .with_context(|| format!("cannot cap the memory of {}", self.name))?;
        Ok(())
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        let pid = self.living()?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Its number, which is nobody else's as long as we have not taken note of its end.
    fn living(&mut self) -> Result<Pid> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} has ended: {status}", self.name);
        }
        Ok(Pid::from_child(&self.child))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.wait(PATIENCE);
        clock::forget(self.id());
    }
}

/// For the `main` of a child: the kernel kills this process when the one that started it ends.
///
/// # Errors
/// When the kernel refuses.
pub fn die_with_parent() -> Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}
