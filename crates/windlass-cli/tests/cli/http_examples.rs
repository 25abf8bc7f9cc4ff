//! The clients in examples/http, each of which does the same, against a real server. Those whose language is not here are left out, and said so.

use crate::{
    examples::{self, ELIXIR, built_by_go, ended_oddly, enqueue_odd, folder, is_there, left_out},
    program::{Home, eventually, signal},
    serve::Served,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

fn file(language: &str, name: &str) -> PathBuf {
    folder(&format!("http/{language}")).join(name)
}

/// Whether a language is here. What `make deps` installs has to be, unless somebody allows that it is not.
fn is_here(language: &str, version: &[&str], words: &str, is_installed: bool) -> bool {
    let is_here = is_there(&[&[language], version].concat(), words);
    if !is_here {
        left_out(&format!("HTTP example in {language}"), language, is_installed);
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
        if ["ruby", "php"].contains(&language) {
            let (report, attempt) = (&job["report"], &job["report"]["log"][0]["text"]);
            assert_eq!(
                (&report["progress"]["percent"], attempt),
                (&50.0.into(), &"attempt 1".into()),
                "{job}"
            );
        }
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

/// Whatever the handler of a client does, and whatever it is given, it goes on with the other jobs of its turn.
fn goes_on(language: &str, name: &str, command: impl FnOnce(PathBuf) -> Command) {
    let home = Home::new();
    let (served, token) = serve(&home);
    let (odd, good) = enqueue_odd(&home);
    let mut command = command(examples::odd(&home, &format!("http/{language}"), name));
    command.env("WINDLASS_URL", format!("http://{}", served.address)).env("WINDLASS_TOKEN", token);
    let mut client = Running(command.env("LC_ALL", "C").stdin(Stdio::null()).spawn().unwrap());
    ended_oddly(&home, language, &odd, &good);
    assert!(client.0.try_wait().unwrap().is_none(), "{language} ended");
}

#[test]
fn ruby() {
    if is_here("ruby", &["--version"], "ruby", true) {
        let run = |file| command("ruby", file);
        works("ruby", &mut run(file("ruby", "worker.rb")), true);
        goes_on("ruby", "worker.rb", run);
    }
}

#[test]
fn php() {
    if is_here("php", &["--version"], "PHP 8", true) {
        let run = |file| command("php", file);
        works("php", &mut run(file("php", "worker.php")), true);
        goes_on("php", "worker.php", run);
    }
}

fn command(program: &str, file: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.arg(file);
    command
}

/// A handler that says how far it is ends when its job is to be cancelled: here one that would go on and on.
#[test]
fn php_obeys_a_cancellation() {
    if !is_here("php", &["--version"], "PHP 8", true) {
        return;
    }
    let home = Home::new();
    let (served, token) = serve(&home);
    let text = fs::read_to_string(file("php", "worker.php")).unwrap();
    let endless = text.replace("        $tell(", "        while (true) $tell(");
    assert_ne!(endless, text);
    let script = home.path().join("worker.php");
    fs::write(&script, endless).unwrap();
    let id = home.enqueue(&["mail.send", r#"{"to":"a"}"#]);
    let mut command = Command::new("php");
    command
        .arg(script)
        .env("WINDLASS_URL", format!("http://{}", served.address))
        .env("WINDLASS_TOKEN", token);
    let _client = Running(command.stdin(Stdio::null()).spawn().unwrap());
    let percent = || home.json(&["jobs", "show", &id])["report"]["progress"]["percent"].clone();
    eventually("it says how far it is", || percent() == 50.0);
    let _asked = home.run(&["jobs", "cancel", &id]);
    eventually("it stops", || home.state(&id) == "cancelled");
}

#[test]
fn go() {
    if !is_here("go", &["version"], "go1.", false) {
        return;
    }
    let (_dir, worker) = built_by_go(&folder("http/go"));
    works("go", &mut Command::new(worker), false);
    let mut built = None;
    goes_on("go", "worker.go", |file| Command::new(&built.insert(built_by_go(file.parent().unwrap())).1));
}

#[test]
fn elixir() {
    let needs =
        "JSON.encode!(1); for app <- [:inets, :ssl], do: {:ok, _} = Application.ensure_all_started(app)";
    if is_here("elixir", &[&ELIXIR[1..], &["-e", needs]].concat(), "", false) {
        let run = |file: PathBuf| {
            let mut elixir = Command::new(ELIXIR[0]);
            elixir.args(&ELIXIR[1..]).arg(file);
            elixir
        };
        works("elixir", &mut run(file("elixir", "worker.exs")), true);
        goes_on("elixir", "worker.exs", run);
    }
}
