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
        let bin: PathBuf = std::env::var_os("WINDLASS_TEST_PGBIN")
            .expect("WINDLASS_TEST_PGBIN is not set; run `make test` or `scripts/with-postgres cargo test -p windlass`")
            .into();
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let cluster =
            Self { bin, port, url: format!("postgres://postgres@127.0.0.1:{port}/postgres"), folder };
        if is_root() {
            let status = Command::new("chown").arg("postgres").arg(cluster.folder.path()).status().unwrap();
            assert!(status.success(), "chown failed");
        }
        cluster.run("initdb", &["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        cluster.start_server();
        cluster
    }

    /// Takes the server down as a crash does, without a checkpoint, and starts it again.
    pub(crate) fn crash_and_restart(&self) {
        self.run("pg_ctl", &["-m", "immediate", "-w", "stop"]);
        self.start_server();
    }

    fn start_server(&self) {
        let socket = self.folder.path().display();
        let options =
            format!("-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={socket}", self.port);
        let log = self.folder.path().join("server.log");
        self.run("pg_ctl", &["-o", &options, "-l", &log.display().to_string(), "-w", "-t", "60", "start"]);
    }

    fn run(&self, program: &str, args: &[&str]) {
        let status = self.command(program, args).status().unwrap();
        assert!(status.success(), "{program} {args:?} failed");
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

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        let _ = self.command("pg_ctl", &["-m", "immediate", "-w", "stop"]).status();
    }
}
