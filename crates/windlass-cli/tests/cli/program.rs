//! Running the real program, each test in a folder of its own. The tests of windlass-bench use this file too;
//! `crate::PROGRAM` says which program is run.

use serde_json::Value;
use std::{
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long a condition may take to come true.
const DEADLINE: Duration = Duration::from_secs(60);

/// A folder to run the program in.
pub(crate) struct Home(TempDir);

/// What a run of the program left.
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    /// A folder without a store.
    pub(crate) fn bare() -> Self {
        Self(TempDir::new().expect("temporary folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The program in this folder, with nothing of the caller's settings.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(args).current_dir(self.path());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["WINDLASS_STORE", "WINDLASS_LOG", "WINDLASS_LOG_FORMAT", "TRACEPARENT", "TRACESTATE"]
                .contains(&&*name)
                || name.starts_with("OTEL_")
            {
                command.env_remove(&*name);
            }
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Answer {
        self.command(args).stdin(Stdio::null()).output().expect("run the program").into()
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> Child {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start the program")
    }

    /// Runs with `--json` and reads the answer.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let answer = self.run(&[args, &["--json"]].concat()).done();
        serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error} in {}", answer.stdout))
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Answer {
    /// It succeeded.
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// It failed with this exit code, and its message has all of these words.
    pub(crate) fn refused(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is missing in {}", self.stderr);
        }
        self
    }
}

/// Looks again and again until it is so.
pub(crate) fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !look() {
        assert!(Instant::now() < deadline, "still not after {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal by its name.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.expect("kill").success());
}
