//! The clients in examples/stdio, each of which does the same. Those whose language is not here are left out, and said so.

use crate::{
    examples::{self, ELIXIR, built_by_go, ended_oddly, enqueue_odd, folder, is_there, left_out},
    program::{Home, eventually, signal},
};
use std::{fs, path::Path, process::Stdio};

/// An example: its folder, and how it and a file like it is run.
struct Example {
    language: &'static str,
    file: &'static str,
    run: String,
}

impl Example {
    fn command(&self, file: &Path) -> String {
        format!("exec {} '{}'", self.run, file.display())
    }
}

/// An example, when its language is here. What `make deps` installs has to be, unless somebody allows that it is not.
fn example(
    language: &'static str,
    is_there: bool,
    is_installed: bool,
    file: &'static str,
) -> Option<Example> {
    let run = match language {
        "shell" => "sh".to_owned(),
        "python" => "python3".to_owned(),
        "elixir" => ELIXIR.map(|word| format!("'{word}'")).join(" "),
        other => other.to_owned(),
    };
    if !is_there {
        left_out(&format!("stdio example in {language}"), &format!("{run} (or jq)"), is_installed);
    }
    is_there.then_some(Example { language, file, run })
}

/// Works good and bad jobs off with an example.
fn works(language: &str, command: &str) {
    let home = Home::new();
    let good: Vec<_> =
        (0..5).map(|n| home.enqueue(&["mail.send", &format!(r#"{{"to":"ä{n} $'\""}}"#)])).collect();
    let bad = home.enqueue(&["mail.send", "{}"]);
    let other = home.enqueue(&["image.resize", "{}"]);
    let args = ["work", "--stdio", command, "--processes", "2"];
    let worker = home.spawn(home.command(&args).stdin(Stdio::null()).env("LC_ALL", "C"));
    eventually(language, || {
        let ended = good.iter().all(|id| home.state(id) == "completed");
        ended
            && ["retryable", "available"].contains(&home.state(&bad).as_str())
            && !home.json(&["jobs", "show", &bad])["errors"].as_array().unwrap().is_empty()
    });
    signal(&worker, "TERM");
    let output = worker.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{language}: {stderr}");
    for (n, id) in good.iter().enumerate() {
        let job = home.json(&["jobs", "show", id]);
        assert_eq!(job["result"]["sent_to"], format!("ä{n} $'\""), "{language}: {job}");
        let report = &job["report"];
        assert_eq!(report["log"][0]["text"], "attempt 1", "{language}: {job}");
        assert_eq!(
            (&report["progress"]["percent"], &report["progress"]["note"]),
            (&50.0.into(), &"handing it over".into()),
            "{language}: {job}"
        );
    }
    let error = home.json(&["jobs", "show", &bad])["errors"][0]["error"].to_string();
    assert!(error.contains("nobody to send it to"), "{language}: {error}");
    assert_eq!(home.state(&other), "available", "{language}: it is not the example's");
}

/// Whatever the handler of a program does, and whatever it is given, the program goes on with the next job.
fn goes_on(language: &str, name: &str, command: impl FnOnce(&Path) -> String) {
    let home = Home::new();
    let (odd, good) = enqueue_odd(&home);
    let command = command(&examples::odd(&home, &format!("stdio/{language}"), name));
    let mut work = home.command(&["work", "--stdio", &command]);
    let worker = home.spawn(work.stdin(Stdio::null()).env("LC_ALL", "C"));
    ended_oddly(&home, language, &odd, &good);
    signal(&worker, "TERM");
    let output = worker.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !stderr.contains("starting another"), "{language}: {stderr}");
}

macro_rules! examples {
    ($($name:ident: $is_there:expr, $is_installed:expr, $file:expr;)*) => {
        $(#[test]
        fn $name() {
            if let Some(example) = example(stringify!($name), $is_there, $is_installed, $file) {
                works(example.language, &example.command(&folder(concat!("stdio/", stringify!($name))).join(example.file)));
                goes_on(example.language, example.file, |file| example.command(file));
            }
        })*
    };
}

examples! {
    python: is_there(&["python3", "--version"], "Python 3"), true, "worker.py";
    ruby: is_there(&["ruby", "--version"], "ruby"), true, "worker.rb";
    php: is_there(&["php", "--version"], "PHP 8"), true, "worker.php";
    shell: is_there(&["jq", "--version"], "jq"), true, "worker.sh";
    node: is_there(&["node", "--version"], "v"), false, "worker.mjs";
    elixir: is_there(&[&ELIXIR[..], &["-e", "JSON.encode!(1)"]].concat(), ""), false, "worker.exs";
}

#[test]
fn go() {
    if example("go", is_there(&["go", "version"], "go1."), false, "worker.go").is_none() {
        return;
    }
    let run = |worker: &Path| format!("exec '{}'", worker.display());
    let (_dir, worker) = built_by_go(&folder("stdio/go"));
    works("go", &run(&worker));
    let mut built = None;
    goes_on("go", "worker.go", |file| run(&built.insert(built_by_go(file.parent().unwrap())).1));
}

#[test]
fn the_guide_begins_with_a_program_that_works() {
    let home = Home::new();
    let guide = fs::read_to_string(folder("../docs/guide/any_language.md")).unwrap();
    let program = guide.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(home.path().join("worker.py"), program).unwrap();
    let id = home.enqueue(&["mail.send", r#"{"to":"ada@example.com"}"#]);
    let report =
        home.json(&["work", "--until-empty", "--stdio", "exec python3 worker.py", "--processes", "4"]);
    let job = home.json(&["jobs", "show", &id]);
    assert_eq!(job["result"]["sent_to"], "ada@example.com", "{report}");
}
