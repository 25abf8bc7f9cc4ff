use crate::program::{Home, eventually, signal};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Child, Stdio},
    time::Duration,
};

/// `windlass serve` in a process of its own, ended with the test.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: String,
    login: Option<String>,
}

impl Served {
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0", "--json"], args].concat();
        Self::of(home.spawn(home.command(&args).stdin(Stdio::null())))
    }

    /// A process that is to be one, with `--json`.
    fn of(mut child: Child) -> Self {
        let said = serde_json::Deserializer::from_reader(child.stdout.take().unwrap()).into_iter().next();
        let Some(Ok(said)) = said else {
            let _ = child.wait();
            let mut stderr = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut stderr);
            panic!("it says no address: {stderr}")
        };
        let said: Value = said;
        let url = said["url"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        Self { child, address, login: said["login"].as_str().map(str::to_owned) }
    }

    /// The whole answer, headers included.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        ask(&self.address, method, path, headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.ask("GET", path, "", "")
    }
}

/// What is answered at an address, headers included.
pub(crate) fn ask(address: &str, method: &str, path: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let home = Home::new();
    let id = home.enqueue(&["mail.send", "--args", r#"{"to": "a@example.com", "token": "hunter2"}"#]);
    let mut served = Served::start(&home, &["--base-path", "/jobs"]);
    for path in ["/readyz", "/jobs/healthz"] {
        assert!(served.get(path).starts_with("HTTP/1.1 200"), "{path}");
    }
    let job = served.get(&format!("/jobs/api/v1/jobs/{id}"));
    assert!(job.contains("a@example.com") && !job.contains("hunter2"), "{job}");
    assert!(served.get("/jobs/workers").contains("<base href=\"/jobs/\">"));

    // Nobody changes anything but who has the key of the start, once.
    let cancel = format!("/jobs/api/v1/jobs/{id}/cancel");
    let ours = "Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\n";
    assert!(served.ask("POST", &cancel, ours, "").starts_with("HTTP/1.1 403"));
    let key = served.login.as_ref().unwrap().split_once("#key=").unwrap().1;
    let body = format!("{{\"token\":\"{key}\"}}");
    let session = served.ask("POST", "/jobs/api/v1/session", ours, &body);
    assert!(session.starts_with("HTTP/1.1 204"), "{session}");
    let cookie = session.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("Path=/jobs/;") && cookie.contains("HttpOnly"), "{cookie}");
    assert!(served.ask("POST", "/jobs/api/v1/session", ours, &body).starts_with("HTTP/1.1 401"));
    let with_cookie = format!("{ours}Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let answer = served.ask("POST", &cancel, &with_cookie, "");
    assert!(answer.ends_with(r#"{"reply":"cancelled"}"#), "{answer}");
    assert_eq!(home.state(&id), "cancelled");

    signal(&served.child, "TERM");
    eventually("it ends", || served.child.try_wait().unwrap().is_some());
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}

/// Each connection is one, and a shell allows 1,024.
#[test]
fn it_takes_as_many_open_files_as_connections_need() {
    let home = Home::new();
    let script = format!("ulimit -Sn 64; exec '{}' serve --listen 127.0.0.1:0 --json", crate::PROGRAM);
    let served = Served::of(home.spawn(
        std::process::Command::new("sh").args(["-c", &script]).current_dir(home.path()).stdin(Stdio::null()),
    ));
    let limits = fs::read_to_string(format!("/proc/{}/limits", served.child.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let [now, most] = [3, 4].map(|at| files.split_whitespace().nth(at).unwrap().parse::<u64>());
    assert_eq!(now.unwrap(), most.unwrap_or(u64::MAX).min(16_384), "{files}");
}

/// It went on to connect for as long as that may take, and failed then.
#[test]
fn it_ends_while_the_database_does_not_answer() {
    let home = Home::bare();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://a@{}/app", silent.local_addr().unwrap());
    let mut child = home.spawn(&mut home.command(&["serve", "--listen", "127.0.0.1:0", "--store", &store]));
    let _connection = silent.accept().unwrap();
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn tokens_open_what_their_role_may() {
    let home = Home::new();
    home.enqueue(&["a", "--queue", "mail"]);
    let token = home.json(&["token", "ci", "--role", "operator"]);
    let lines = home.run(&["token", "other \"one\"", "--role", "viewer"]).done().stdout;
    let lines = lines.split_once("[[token]]").unwrap().1;
    let file = home.path().join("auth.toml");
    let text = format!(
        "[[token]]{lines}\n[[token]]\nname = \"ci\"\nrole = \"operator\"\nsha256 = {}\n",
        token["sha256"]
    );
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let start = ["serve", "--listen", "0.0.0.0:0", "--auth", "auth.toml"];
    home.run(&start).refused(2, &["others may read", "chmod 600"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();

    let served = Served::start(&home, &["--auth", "auth.toml"]);
    assert!(served.login.is_none());
    assert!(served.get("/api/v1/queues").starts_with("HTTP/1.1 401"));
    let bearer = format!("Authorization: Bearer {}\r\n", token["token"].as_str().unwrap());
    let ask = |method: &str, path: &str| served.ask(method, path, &bearer, "");
    assert!(ask("POST", "/api/v1/queues/mail/pause").starts_with("HTTP/1.1 204"));
    assert!(ask("GET", "/api/v1/audit").starts_with("HTTP/1.1 403"));
    assert_eq!(home.json(&["queues"])[0]["paused"], true);
}

#[test]
fn the_auth_file_is_read_anew_when_it_changes() {
    let home = Home::new();
    let [goes, stays] = ["goes", "stays"].map(|name| home.json(&["token", name, "--role", "viewer"]));
    let line = |name: &str, token: &Value| {
        format!("[[token]]\nname = {name:?}\nrole = \"viewer\"\nsha256 = {}\n", token["sha256"])
    };
    let file = home.path().join("auth.toml");
    fs::write(&file, line("goes", &goes) + &line("stays", &stays)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut served = Served::start(&home, &["--auth", "auth.toml"]);
    let mut log = std::io::BufReader::new(served.child.stderr.take().unwrap()).lines();
    let status = |token: &Value| {
        let bearer = format!("Authorization: Bearer {}\r\n", token["token"].as_str().unwrap());
        let answer = served.ask("GET", "/api/v1/queues", &bearer, "");
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!((status(&goes), status(&stays)), ("200".to_owned(), "200".to_owned()));
    // One that makes no sense changes nothing, and says so.
    fs::write(&file, "[[token]]\nname = 7").unwrap();
    signal(&served.child, "HUP");
    assert!(log.any(|line| line.unwrap().contains("the auth file is not taken")));
    assert_eq!(status(&goes), "200");
    // No signal is needed.
    fs::write(&file, line("stays", &stays)).unwrap();
    eventually("the token is taken away", || status(&goes) == "401");
    assert_eq!(status(&stays), "200");
    // Of a file that others may read nothing is taken, until it is done as the log says.
    let new = home.path().join("new.toml");
    fs::write(&new, line("goes", &goes)).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).unwrap();
    fs::rename(&new, &file).unwrap();
    assert!(log.any(|line| line.unwrap().contains("run `chmod 600` on it")));
    assert_eq!(status(&stays), "200");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    eventually("the file is taken", || status(&stays) == "401");
    assert_eq!(status(&goes), "200");
}

#[test]
fn what_others_reach_needs_to_know_who_they_are() {
    let home = Home::new();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        home.run(&["serve", "--listen", listen])
            .refused(2, &["reached from other machines", "--auth", "windlass token"]);
    }
    home.run(&["serve", "--auth", "missing.toml"]).refused(2, &["missing.toml"]);
    home.run(&["serve", "--listen", "127.0.0.1:0", "--base-path", "jobs"]).refused(2, &["base path"]);
    home.run(&["token", "a", "--role", "root"]).refused(2, &["unknown role"]);
    home.run(&["token", ""]).refused(2, &["the name of a token must be 1 to 200 bytes"]);
    Home::bare().run(&["serve"]).refused(3, &["does not exist"]);
}
