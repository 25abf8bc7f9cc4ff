//! A PostgreSQL cluster that a test may take down: made, started and removed by the test itself.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A running cluster on a free port of the loopback interface.
pub(crate) struct OwnCluster {
    folder: tempfile::TempDir,
    bin: PathBuf,
    port: u16,
    pub(crate) url: String,
}

impl OwnCluster {
    /// # Panics
    /// Without `WINDLASS_TEST_PGBIN`: run the tests by `make test` or `scripts/with-postgres cargo test`.
    pub(crate) fn start() -> Self {
        let mut cluster = Self::empty();
        cluster.run("initdb", &["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        cluster.first_start();
        cluster
    }

    /// Two of one data folder, as servers are that begin with a copy of an image: they have one identifier, and count transactions alike.
    pub(crate) fn twins() -> [Self; 2] {
        let mut twins = [Self::empty(), Self::empty()];
        twins[0].run("initdb", &["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        let [from, to] = [&twins[0], &twins[1]].map(|cluster| cluster.folder.path().join("data"));
        assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success(), "cp failed");
        twins.iter_mut().for_each(Self::first_start);
        twins
    }

    /// The folder of one, without data.
    pub(crate) fn empty() -> Self {
        let bin: PathBuf = std::env::var_os("WINDLASS_TEST_PGBIN")
            .expect("WINDLASS_TEST_PGBIN is not set; run `make test` or `scripts/with-postgres cargo test -p windlass`")
            .into();
        let cluster = Self { folder: tempfile::tempdir().unwrap(), bin, port: 0, url: String::new() };
        if is_root() {
            let status = Command::new("chown").arg("postgres").arg(cluster.folder.path()).status().unwrap();
            assert!(status.success(), "chown failed");
        }
        cluster
    }

    pub(crate) fn first_start(&mut self) {
        // A free port may be taken in between.
        let is_up = (0..5).any(|_| {
            self.port = free_port();
            self.start_server()
        });
        assert!(is_up, "the server does not start: {}", self.log());
        self.url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.port);
    }

    /// Takes the server down as a crash does, without a checkpoint.
    pub(crate) fn crash(&self) {
        self.run("pg_ctl", &["-m", "immediate", "-w", "stop"]);
    }

    /// The same, and starts it again.
    pub(crate) fn crash_and_restart(&self) {
        self.crash();
        assert!(self.start_server(), "the server does not start again: {}", self.log());
    }

    /// Whether it came up.
    fn start_server(&self) -> bool {
        let socket = self.folder.path().display();
        let options =
            format!("-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={socket}", self.port);
        self.succeeds("pg_ctl", &["-o", &options, "-l", "server.log", "-w", "-t", "60", "start"])
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }

    pub(crate) fn run(&self, program: &str, args: &[&str]) {
        assert!(self.succeeds(program, args), "{program} {args:?} failed");
    }

    fn succeeds(&self, program: &str, args: &[&str]) -> bool {
        self.command(program, args).status().unwrap().success()
    }

    /// The server refuses to run as root, so it runs as its own user then.
    fn command(&self, program: &str, args: &[&str]) -> Command {
        let path: &Path = &self.bin.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "postgres", "--regid", "postgres", "--init-groups", "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        command.current_dir(self.folder.path()).arg("-D").arg(self.folder.path().join("data")).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        let _ = self.command("pg_ctl", &["-m", "immediate", "-w", "stop"]).status();
    }
}
