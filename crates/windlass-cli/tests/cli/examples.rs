//! The programs in examples/, in several languages: where they are, whether their language is here, and how long they may be.

use crate::program::{Home, eventually};
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

/// A job for each thing that the handler of an odd program does, and those that it works as ever; their ids.
pub(crate) fn enqueue_odd(home: &Home) -> (Vec<String>, Vec<String>) {
    let enqueue = |args: &str| home.enqueue(&["mail.send", args]);
    let odd = ["no json", "error", "deep"].map(|to| enqueue(&format!(r#"{{"to":"{to}"}}"#)));
    let good = [r#"{"to":"a"}"#, "{\"to\":\"b\u{2028}\"}"].map(enqueue);
    ([&odd[..], &[enqueue("[1]")]].concat(), good.to_vec())
}

/// Waits until all of them are over: the odd ones by an error of their own.
pub(crate) fn ended_oddly(home: &Home, of: &str, odd: &[String], good: &[String]) {
    eventually(of, || {
        let has_failed =
            |id: &String| !home.json(&["jobs", "show", id])["errors"].as_array().unwrap().is_empty();
        good.iter().all(|id| home.state(id) == "completed") && odd.iter().all(has_failed)
    });
    for id in odd {
        let job = home.json(&["jobs", "show", id]);
        let error = job["errors"][0]["error"].as_str().unwrap();
        assert!(!error.is_empty() && !error.starts_with("the process that ran it"), "{of}: {job}");
        assert_eq!(job["errors"].as_array().unwrap().len(), 1, "{of}: {job}");
    }
}

/// An example whose handler returns what is no JSON and what is nested too deep, and throws what is no text; in its folder, as it is there.
pub(crate) fn odd(home: &Home, of: &str, file: &str) -> PathBuf {
    let text = fs::read_to_string(folder(of).join(file)).unwrap();
    let (sends, instead) = match of.split_once('/').unwrap() {
        (_, "python") => (
            "return {\"sent_to\": args[\"to\"]}",
            "to = args[\"to\"]
    if to == 'error': raise ValueError(chr(0xdcff))
    return {'no json': float('nan'), 'deep': eval('[' * 70 + ']' * 70)}.get(to, {'sent_to': to})",
        ),
        (_, "ruby") => (
            "{ sent_to: to }",
            r#"raise LoadError, "\xff".b if to == "error"
    { "no json" => Float::NAN, "deep" => 70.times.inject(1) { |deep, _| [deep] } }.fetch(to, { sent_to: to })"#,
        ),
        (_, "php") => (
            "return ['sent_to' => $to];",
            r#"if ($to === 'error') throw new Error("\xff");
        for ($deep = [], $n = 0; $n < 70; $n++) $deep = [$deep];
        return ['no json' => [NAN], 'deep' => $deep][$to] ?? ['sent_to' => $to];"#,
        ),
        (_, "elixir") => (
            "%{sent_to: to}",
            r#"if to == "error", do: Task.await(Task.async(fn -> raise("\xff") end))
    if to == "deep", do: exit(:normal)
    if to == "no json", do: {:no, :json}, else: %{sent_to: to}"#,
        ),
        (_, "node") => (
            "return { sent_to: to }",
            "if (to === 'error') throw new Error('\\ud800')
    return { 'no json': 1n, deep: JSON.parse('['.repeat(70) + ']'.repeat(70)) }[to] ?? { sent_to: to }",
        ),
        ("http", "go") => ("object{\"sent_to\": to}", "odd(to)"),
        ("stdio", "go") => ("message{\"sent_to\": args.To}, nil", "panics(args.To), nil"),
        ("stdio", "shell") => (
            "mail_send() {",
            "mail_send() {
    to=$(cat)
    case $to in
    *'\"no json\"'*) echo no json ;;
    *'\"error\"'*) head -c 200000 /dev/zero | tr '\\0' e >&2; printf '\\377\\n' >&2; return 1 ;;
    *'\"deep\"'*) jq -cn '[range(70)] | reduce .[] as $n (1; [.])' ;;
    *) printf %s \"$to\" | mail_sent ;;
    esac
}
mail_sent() {",
        ),
        other => panic!("{other:?}"),
    };
    assert_eq!(text.matches(sends).count(), 1, "{of}");
    let odd = text.replace(sends, instead);
    let more = "
func panics(to string) any {
	if to == \"error\" {
		panic(\"\\xff\")
	}
	return odd(to)
}
func odd(to string) any {
	if to != \"a\" && to != \"b\u{2028}\" {
		return make(chan int)
	}
	return map[string]any{\"sent_to\": to}
}
";
    let path = home.path().join(file);
    fs::write(&path, if file.ends_with(".go") { odd + more } else { odd }).unwrap();
    path
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
