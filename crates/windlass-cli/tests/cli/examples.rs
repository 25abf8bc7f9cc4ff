//! The programs in examples/, in several languages: where they are, whether their language is here, and how long they may be.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// Elixir with the module `JSON`, which those before 1.18, such as Debian's, are given. Erlang's threads spin while they wait: on a busy
/// machine it takes a minute to start, unless that is forbidden.
pub(crate) const ELIXIR: [&str; 5] = [
    "elixir",
    "--erl",
    "+S 1:1 +sbwt none +sbwtdio none",
    "-r",
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/json.exs"),
];

/// The folder of an example, such as `http/ruby`.
pub(crate) fn folder(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(of).canonicalize().unwrap()
}

/// Whether a command says that it is there, with these words.
pub(crate) fn is_there(command: &[&str], words: &str) -> bool {
    let output = Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| {
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains(words)
    })
}

/// Says that an example is left out, because its language is not here. What `make deps` installs has to be, unless somebody allows that it is not.
pub(crate) fn left_out(what: &str, needs: &str, is_installed: bool) {
    let why = format!(
        "{needs} is not installed; run `make deps`, or set WINDLASS_ALLOW_SKIP=1 to leave this example out"
    );
    assert!(!is_installed || std::env::var_os("WINDLASS_ALLOW_SKIP").is_some(), "{why}");
    // Not by a macro: what those print shows for failing tests alone.
    let _ = writeln!(io::stderr(), "LEFT OUT: the {what}, which is not here, or too old");
}

/// A program in Go, built into a folder that goes with the test.
pub(crate) fn built_by_go(folder: &Path) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let (worker, source) = (dir.path().join("worker"), folder.join("worker.go"));
    let mut build = Command::new("go");
    build.arg("build").arg("-o").arg(&worker).arg(source).env("GOFLAGS", "-mod=mod").current_dir(dir.path());
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (dir, worker)
}

/// The issue's promise: any language, with a page of code.
#[test]
fn no_example_is_longer_than_a_page() {
    for of in ["stdio", "http"] {
        for language in fs::read_dir(folder(of)).unwrap() {
            for file in fs::read_dir(language.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                let lines = fs::read_to_string(&path).unwrap().lines().count();
                assert!(lines <= 60, "{} has {lines} lines", path.display());
            }
        }
    }
}
