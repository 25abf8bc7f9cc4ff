//! Measures HTTP workers that do nothing with their jobs: how many a second get through one server process, and what a million of them costs it.
//!
//! ```sh
//! cargo run --release -p windlass-server --example turns -- STORE_URL [JOBS [CONNECTIONS [BATCH]]]
//! ```
//!
//! `STORE_URL` is `memory`, `sqlite:FILE` or `postgres://…`, in which queue `turns` is filled. The server is a process of its own, whose CPU time is
//! read from Linux. Each connection is one worker, which hands in a batch and gets the next in one turn.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Instant,
};
use windlass::{Args, Client, NewJob, testing};
use windlass_server::{Access, AuthFile, BasePath, NewToken, Role, Server};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How many jobs are enqueued at once.
const CHUNK: usize = 10_000;
/// Of Linux, on all machines that this is measured on.
const TICKS_PER_SECOND: f64 = 100.0;

fn main() -> Outcome<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default| args.get(at).map_or(Ok(default), |text| text.parse());
    let url = args.first().ok_or("say which store: memory, sqlite:FILE or postgres://…")?;
    let (jobs, connections, batch) = (number(1, 1_000_000)?, number(2, 4)?, number(3, 250)?);
    if env::var_os("TURNS_SERVER").is_some() {
        return serve(url, jobs);
    }
    let mut server = Command::new(env::current_exe()?)
        .args(&args)
        .env("TURNS_SERVER", "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let (address, token) = line.trim().split_once(' ').ok_or("the server did not start")?;
    let (began, cpu) = (Instant::now(), cpu_seconds(server.id())?);
    let workers: Vec<_> = (0..connections)
        .map(|_| {
            let (address, token): (Arc<str>, Arc<str>) = (address.into(), token.into());
            thread::spawn(move || work(&address, &token, batch))
        })
        .collect();
    let mut done = 0;
    for worker in workers {
        done += worker.join().map_err(|_| "a worker panicked")??;
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds(server.id())? - cpu);
    server.kill()?;
    server.wait()?;
    println!(
        "{done} jobs in {took:.2} s: {:.0} jobs/s; the server took {:.2} s of CPU for a million",
        done as f64 / took,
        cpu * 1e6 / done as f64
    );
    Ok(())
}

#[tokio::main]
async fn serve(url: &str, jobs: usize) -> Outcome<()> {
    let client = if url == "memory" { testing::client() } else { Client::connect(url).await? };
    client.migrate().await?;
    let job = NewJob::new("nothing", Args::parse("{\"n\": 1}")?).with_queue("turns");
    for from in (0..jobs).step_by(CHUNK) {
        client.enqueue_many(vec![job.clone(); CHUNK.min(jobs - from)]).await?;
    }
    let token = NewToken::generate()?;
    let text = format!("[[token]]\nname = 'turns'\nrole = '{}'\nsha256 = '{}'\n", Role::Worker, token.sha256);
    let server = Server::builder(client).access(Access::file(AuthFile::parse(&text)?)).build();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    println!("{} {}", listener.local_addr()?, token.text);
    let listener = tokio::net::TcpListener::from_std(listener)?;
    server.serve(listener, &BasePath::default(), std::future::pending()).await?;
    Ok(())
}

/// Works until there is nothing left. How many jobs were settled.
fn work(address: &str, token: &str, batch: usize) -> Outcome<usize> {
    let mut stream = BufReader::new(TcpStream::connect(address)?);
    stream.get_ref().set_nodelay(true)?;
    let registered = ask(&mut stream, token, "", &format!("{{\"queues\":{{\"turns\":{batch}}}}}"))?;
    let worker = between(&registered, "\"worker\":\"").next().ok_or("not registered")?.to_owned();
    let (mut settled, mut done) = (0, String::new());
    loop {
        let answer = ask(&mut stream, token, &format!("/{worker}/turn"), &format!("{{\"done\":[{done}]}}"))?;
        settled += answer.matches("\"accepted\"").count();
        let said = between(&answer, "\"receipt\":\"")
            .map(|receipt| format!("{{\"receipt\":\"{receipt}\",\"outcome\":\"complete\"}}"));
        done = said.collect::<Vec<_>>().join(",");
        if done.is_empty() {
            return Ok(settled);
        }
    }
}

/// What stands behind each `start`, up to the next quote.
fn between<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(|rest| rest.split('"').next())
}

fn ask(stream: &mut BufReader<TcpStream>, token: &str, path: &str, body: &str) -> Outcome<String> {
    let head = format!(
        "POST /work/v1/workers{path} HTTP/1.1\r\nHost: turns\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.get_mut().write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    let (mut status, mut length, mut line) = (String::new(), 0, String::new());
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        match line.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse()?,
            Some(_) => {}
            None if line.trim().is_empty() => break,
            None => status = line.trim().to_owned(),
        }
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    let answer = String::from_utf8(answer)?;
    if !status.contains(" 20") {
        return Err(io::Error::other(format!("{status}: {answer}")).into());
    }
    Ok(answer)
}

fn cpu_seconds(process: u32) -> Outcome<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().ok_or("no fields")?.split_whitespace().collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / TICKS_PER_SECOND)
}
