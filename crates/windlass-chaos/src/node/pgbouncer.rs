use super::{
    Postgres,
    folder::Folder,
    free_port, nursery,
    programs::{OnOurDeath, as_server_user, find},
    wait_for,
};
use anyhow::{Context, Result, bail};
use std::{
    fmt::Write as _,
    net::{Ipv4Addr, TcpStream},
    path::PathBuf,
    process::Child,
    sync::Mutex,
};

/// How often another port is tried when somebody else took the first.
const PORTS: usize = 5;

/// What a pooler allows.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Server connections for everybody together.
    pub pool_size: u32,
    /// Further settings of its section `pgbouncer`.
    pub settings: Vec<(String, String)>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { pool_size: 10, settings: Vec::new() }
    }
}

/// PgBouncer in transaction mode before a [`Postgres`], on a port that it keeps. Killed on drop.
pub struct PgBouncer {
    program: PathBuf,
    folder: Folder,
    port: u16,
    child: Mutex<Option<Child>>,
}

impl PgBouncer {
    /// Whether it is installed.
    #[must_use]
    pub fn available() -> bool {
        find("pgbouncer").is_some()
    }

    /// Starts it and waits until it listens.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start(server: &Postgres, options: &PoolOptions) -> Result<Self> {
        let program = find("pgbouncer").context("pgbouncer is not installed; run `make deps`")?;
        let mut failure = None;
        for _ in 0..PORTS {
            let bouncer = Self {
                program: program.clone(),
                folder: Folder::new(None)?,
                port: free_port()?,
                child: Mutex::default(),
            };
            bouncer.configure(server.port(), options)?;
            match bouncer.start_again() {
                Ok(()) => return Ok(bouncer),
                Err(cause) => failure = Some(cause),
            }
        }
        Err(failure.context("no port was tried")?)
    }

    /// The URL of the pooler, for a superuser; for Windlass add `pooler=transaction`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// SIGKILL: all connections through it are cut.
    pub fn stop(&self) {
        let child = super::postgres::lock(&self.child).take();
        if let Some(mut child) = child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it where it is stopped, on the same port.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_again(&self) -> Result<()> {
        self.stop();
        let mut command = as_server_user(&self.program, self.folder.path(), OnOurDeath::Kill);
        command.arg("--quiet").arg(self.folder.path().join("pgbouncer.ini"));
        *super::postgres::lock(&self.child) = Some(nursery::spawn(command)?);
        wait_for("pgbouncer listens", || {
            if let Some(child) = super::postgres::lock(&self.child).as_mut()
                && let Some(status) = child.try_wait()?
            {
                bail!("pgbouncer ended at once: {status}");
            }
            Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok().map(drop))
        })
    }

    /// [`Self::stop`] and [`Self::start_again`].
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart(&self) -> Result<()> {
        self.start_again()
    }

    fn configure(&self, server_port: u16, options: &PoolOptions) -> Result<()> {
        let mut text = format!(
            "[databases]\n* = host=127.0.0.1 port={server_port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\nmax_client_conn = 1000\n\
             default_pool_size = {}\n",
            self.port, options.pool_size
        );
        for (name, value) in &options.settings {
            writeln!(text, "{name} = {value}")?;
        }
        Ok(std::fs::write(self.folder.path().join("pgbouncer.ini"), text)?)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.stop();
    }
}
