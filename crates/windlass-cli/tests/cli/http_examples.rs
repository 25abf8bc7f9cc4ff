//! The clients in examples/http, each of which does the same, against a real server. Those whose language is not here are left out, and said so.

use crate::{
    program::{Home, eventually, signal},
    serve::Served,
};
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

fn folder(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/http").join(language).canonicalize().unwrap()
}

/// Whether a language is here. What `make deps` installs has to be, unless somebody allows that it is not.
fn is_here(language: &str, version: &[&str], words: &str, is_installed: bool) -> bool {
    let output = Command::new(language).args(version).stdin(Stdio::null()).output();
    let is_here = output.is_ok_and(|output| {
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains(words)
    });
    if !is_here {
        let why = format!(
            "{language} is not installed; run `make deps`, or set WINDLASS_ALLOW_SKIP=1 to leave this example out"
        );
        assert!(!is_installed || std::env::var_os("WINDLASS_ALLOW_SKIP").is_some(), "{why}");
        // Not by a macro: what those print shows for failing tests alone.
        let _ =
            writeln!(io::stderr(), "LEFT OUT: the HTTP example in {language}, which is not here, or too old");
    }
    is_here
}

/// A client that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with a token for workers.
fn serve(home: &Home) -> (Served, String) {
    let token = home.json(&["token", "shop", "--role", "worker"]);
    let text = |name: &str| token[name].as_str().unwrap().to_owned();
    let auth = home.path().join("auth.toml");
    let lines = format!("[[token]]\nname = \"shop\"\nrole = \"worker\"\nsha256 = \"{}\"\n", text("sha256"));
    fs::write(&auth, lines).unwrap();
    fs::set_permissions(&auth, fs::Permissions::from_mode(0o600)).unwrap();
    (Served::start(home, &["--auth", auth.to_str().unwrap()]), text("token"))
}

/// Works good and bad jobs off with a client, which is told to stop if it listens to that.
fn works(language: &str, command: &mut Command, stops: bool) {
    let home = Home::new();
    let (served, token) = serve(&home);
    let good: Vec<_> =
        (0..5).map(|n| home.enqueue(&["mail.send", &format!(r#"{{"to":"ä{n} $'\""}}"#)])).collect();
    let bad = home.enqueue(&["mail.send", "{}"]);
    let other = home.enqueue(&["image.resize", "{}"]);
    command.env("WINDLASS_URL", format!("http://{}", served.address)).env("WINDLASS_TOKEN", token);
    let mut client = Running(command.env("LC_ALL", "C").stdin(Stdio::null()).spawn().unwrap());
    let is_done = |id: &String| home.state(id) == "completed";
    eventually(language, || {
        good.iter().all(is_done)
            && !home.json(&["jobs", "show", &bad])["errors"].as_array().unwrap().is_empty()
    });
    for (n, id) in good.iter().enumerate() {
        let job = home.json(&["jobs", "show", id]);
        assert_eq!(job["result"]["sent_to"], format!("ä{n} $'\""), "{language}: {job}");
    }
    let error = home.json(&["jobs", "show", &bad])["errors"][0]["error"].to_string();
    assert!(error.contains("nobody to send it to"), "{language}: {error}");
    assert_eq!(home.state(&other), "available", "{language}: it is not the example's");
    // It waits by now, and hears of a job that comes.
    let late = home.enqueue(&["mail.send", r#"{"to":"late"}"#]);
    eventually(language, || is_done(&late));
    if stops {
        signal(&client.0, "TERM");
        // What it waits with is over when a job comes; it hands that in, and leaves.
        let last = home.enqueue(&["mail.send", r#"{"to":"last"}"#]);
        assert!(client.0.wait().unwrap().success(), "{language}");
        assert!(["completed", "available"].contains(&home.state(&last).as_str()), "{language}");
        let (workers, name) = (home.json(&["status"])["workers"].clone(), format!(":{}", client.0.id()));
        let mut workers = workers.as_array().unwrap().iter();
        let worker = workers.find(|worker| worker["name"].as_str().unwrap().ends_with(&name)).unwrap();
        assert_eq!(worker["live"], false, "{language} left without a word");
    }
}

#[test]
fn ruby() {
    if is_here("ruby", &["--version"], "ruby", true) {
        works("ruby", Command::new("ruby").arg(folder("ruby").join("worker.rb")), true);
    }
}

#[test]
fn php() {
    if is_here("php", &["--version"], "PHP 8", true) {
        works("php", Command::new("php").arg(folder("php").join("worker.php")), true);
    }
}

#[test]
fn go() {
    if !is_here("go", &["version"], "go1.", false) {
        return;
    }
    let dir = tempfile::TempDir::new().unwrap();
    let (worker, source) = (dir.path().join("worker"), folder("go").join("worker.go"));
    let mut build = Command::new("go");
    build.arg("build").arg("-o").arg(&worker).arg(source).env("GOFLAGS", "-mod=mod").current_dir(dir.path());
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    works("go", &mut Command::new(worker), false);
}

/// The issue's promise: any language, with a page of code.
#[test]
fn no_example_is_longer_than_a_page() {
    for language in fs::read_dir(folder("")).unwrap() {
        for file in fs::read_dir(language.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= 60, "{} has {lines} lines", path.display());
        }
    }
}
