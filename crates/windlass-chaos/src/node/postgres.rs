mod crash;
mod dump;
mod settings;
mod standby;

pub use standby::Sync;

use super::{
    Clock, PATIENCE, POLL, clock,
    folder::Folder,
    free_port, nursery, proc_table,
    programs::{OnOurDeath, as_server_user, give_to_server_user, postgres_folder, run},
};
use anyhow::{Result, bail};
use proc_table::Identity;
use rustix::process::{Pid, Signal, kill_process};
use settings::Settings;
use std::{
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How often another port is tried when somebody else took the first.
const PORTS: usize = 5;
/// After how long a postmaster that was told to go at once kills its children.
const CHILDREN_ARE_KILLED: Duration = Duration::from_secs(5);

/// How a server of ours is made.
#[derive(Clone, Default)]
pub struct PostgresOptions {
    /// Lines of `postgresql.conf`, values as they stand between quotes there. `fsync` is on unless one says so.
    pub settings: Vec<(String, String)>,
    /// Where the data goes, for example a [`super::Tmpfs`]; default: the folder for temporary files. The log
    /// is always in the latter.
    pub folder: Option<PathBuf>,
    /// A wall clock of its own.
    pub clock: Option<Clock>,
}

/// A PostgreSQL server on a port of the loopback interface that it keeps. Stopped and removed on drop.
///
/// All methods block, and those that change the server wait for each other.
pub struct Postgres {
    bin: PathBuf,
    /// Log and sockets.
    folder: Folder,
    /// The folder of the data, where the caller chose the place.
    place: Option<Folder>,
    port: u16,
    clock: Option<Clock>,
    settings: Mutex<Settings>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    postmaster: Option<Child>,
    /// Backends that may outlive their postmaster, for which a new one has to wait.
    orphans: Vec<Identity>,
}

impl Postgres {
    /// Makes a new cluster and starts it.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start; the log is quoted.
    pub fn start(options: PostgresOptions) -> Result<Self> {
        let mut server = Self::empty(options)?;
        let mut initdb = server.command("initdb", OnOurDeath::Stay);
        initdb.arg("-D").arg(server.data());
        run(initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]))?;
        server.first_start()?;
        Ok(server)
    }

    fn empty(options: PostgresOptions) -> Result<Self> {
        let place = options.folder.as_deref().map(|place| Folder::new(Some(place))).transpose()?;
        Ok(Self {
            bin: postgres_folder()?,
            folder: Folder::new(None)?,
            place,
            port: 0,
            clock: options.clock,
            settings: Mutex::new(Settings::new(options.settings)),
            running: Mutex::default(),
        })
    }

    /// The free port may be taken in between.
    fn first_start(&mut self) -> Result<()> {
        lock(&self.settings).write(&self.data())?;
        for _ in 1..PORTS {
            self.port = free_port()?;
            match self.start_again() {
                Err(_) if self.log_says("could not bind") => std::fs::remove_file(self.log())?,
                done => return done,
            }
        }
        self.port = free_port()?;
        self.start_again()
    }

    /// The URL of a superuser.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.place.as_ref().unwrap_or(&self.folder).path().join("data")
    }

    /// The file of the server's log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// Starts it where it is not running, and waits until it takes connections (after crash recovery).
    ///
    /// # Errors
    /// When it does not start; the end of the log is quoted.
    pub fn start_again(&self) -> Result<()> {
        let mut running = lock(&self.running);
        if running.postmaster.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
            return Ok(());
        }
        crash::bury(&mut running.orphans)?;
        let log = File::options().create(true).append(true).open(self.log())?;
        give_to_server_user(&self.log())?;
        let mut command = self.postmaster();
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "logging_collector=off", "-c"]);
        command.arg(format!("unix_socket_directories={}", self.folder.path().display()));
        command.stdout(log.try_clone()?).stderr(log);
        running.postmaster = Some(nursery::spawn(command)?);
        self.until_ready(&mut running)
    }

    /// SIGQUIT: down at once, without a checkpoint, as in a crash. Waits until it is down.
    ///
    /// # Errors
    /// When it does not go.
    pub fn stop_immediate(&self) -> Result<()> {
        self.stop_by(&mut lock(&self.running), Signal::QUIT)
    }

    /// SIGINT: connections are cut, then a checkpoint. Waits until it is down.
    ///
    /// # Errors
    /// When it does not go.
    pub fn stop_fast(&self) -> Result<()> {
        self.stop_by(&mut lock(&self.running), Signal::INT)
    }

    /// The same, and up again.
    ///
    /// # Errors
    /// When it does not go or does not come.
    pub fn restart_fast(&self) -> Result<()> {
        self.stop_fast()?;
        self.start_again()
    }

    /// Changes settings as [`PostgresOptions::settings`] and has the server read them; back when new sessions
    /// have them. Where it is not running, it reads them when it starts.
    ///
    /// # Errors
    /// When the file cannot be written or the server does not read it.
    pub fn reload(&self, settings: &[(&str, &str)]) -> Result<()> {
        lock(&self.settings).set(settings);
        lock(&self.settings).write(&self.data())?;
        let before = {
            let mut running = lock(&self.running);
            let Some(child) = &mut running.postmaster else { return Ok(()) };
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            let before = self.sql("SELECT pg_conf_load_time()")?;
            kill_process(Pid::from_child(child), Signal::HUP)?;
            before
        };
        super::wait_for("the server reads its settings", || {
            Ok((self.sql("SELECT pg_conf_load_time()")? != before).then_some(()))
        })?;
        // A checkpoint begins with the settings: synchronous_standby_names holds from here on.
        if self.sql("SELECT pg_is_in_recovery()")? == "f" { self.sql("CHECKPOINT").map(drop) } else { Ok(()) }
    }

    /// Runs a statement as superuser by `psql` and answers its output.
    ///
    /// # Errors
    /// What `psql` says.
    pub fn sql(&self, statement: &str) -> Result<String> {
        let mut psql = self.command("psql", OnOurDeath::Stay);
        run(psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement, &self.url()]))
    }

    fn command(&self, program: &str, on_our_death: OnOurDeath) -> Command {
        as_server_user(&self.bin.join(program), self.folder.path(), on_our_death)
    }

    fn postmaster(&self) -> Command {
        let Some(clock) = &self.clock else { return self.command("postgres", OnOurDeath::Quit) };
        // Not before the process has changed its user: libfaketime makes files.
        let mut command = as_server_user(Path::new("env"), self.folder.path(), OnOurDeath::Quit);
        for (name, value) in clock.environment() {
            let mut word = OsString::from(name);
            word.push("=");
            word.push(value);
            command.arg(word);
        }
        command.arg(self.bin.join("postgres"));
        command
    }

    fn until_ready(&self, running: &mut Running) -> Result<()> {
        let Some(child) = running.postmaster.as_mut() else { bail!("the server is not started") };
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait()? {
                bail!("PostgreSQL ended at its start: {status}; its log ends with:\n{}", self.log_end());
            }
            if is_ready(&self.data(), child.id()) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!(
                    "PostgreSQL is not ready after {} s; its log ends with:\n{}",
                    PATIENCE.as_secs(),
                    self.log_end()
                );
            }
            std::thread::sleep(POLL);
        }
    }

    fn stop_by(&self, running: &mut Running, signal: Signal) -> Result<()> {
        let Some(child) = &mut running.postmaster else { return Ok(()) };
        if child.try_wait()?.is_none() {
            kill_process(Pid::from_child(child), signal)?;
        }
        let patience = if signal == Signal::QUIT { CHILDREN_ARE_KILLED * 2 } else { PATIENCE };
        let stopped = super::wait_within(patience, "PostgreSQL stops", || Ok(child.try_wait()?));
        if stopped.is_err() && signal == Signal::QUIT {
            return crash::kill_stuck(running);
        }
        stopped?;
        clock::forget(child.id());
        running.postmaster = None;
        Ok(())
    }

    fn log_end(&self) -> String {
        const LINES: usize = 20;
        let log = std::fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    fn log_says(&self, text: &str) -> bool {
        self.log_end().contains(text)
    }
}

/// The postmaster writes into its file how far it is, as for `pg_ctl -w`.
fn is_ready(data: &Path, pid: u32) -> bool {
    let text = std::fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let mut lines = text.lines();
    let is_ours = lines.next().is_some_and(|first| first.trim() == pid.to_string());
    is_ours && lines.nth(6).is_some_and(|status| matches!(status.trim(), "ready" | "standby"))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut running = lock(&self.running);
        let _ = self.stop_by(&mut running, Signal::QUIT);
        let _ = crash::bury(&mut running.orphans);
        crash::free_shared_memory(&self.data());
    }
}
