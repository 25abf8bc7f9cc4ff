//! Servers that are crashed and come back, and processes that are killed, stopped and starved.
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};
use windlass_chaos::node::{
    Clock, PgBouncer, PoolOptions, Postgres, PostgresOptions, Process, Sync, Tmpfs, left_out,
};

const PATIENCE: Duration = Duration::from_secs(30);

fn server() -> Postgres {
    let small = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let settings = vec![small("shared_buffers", "16MB"), small("max_connections", "20")];
    let server = Postgres::start(PostgresOptions { settings, ..Default::default() }).unwrap();
    server.sql("CREATE TABLE kept (n bigint)").unwrap();
    server
}

fn add(server: &Postgres, n: u32) {
    server.sql(&format!("INSERT INTO kept VALUES ({n})")).unwrap();
}

fn kept(server: &Postgres) -> String {
    server.sql("SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept").unwrap()
}

#[test]
fn a_server_comes_back_from_every_crash_with_its_data() {
    let server = server();
    assert_eq!(server.sql("SHOW fsync").unwrap(), "on");
    add(&server, 1);
    server.stop_immediate().unwrap();
    assert!(server.sql("SELECT 1").is_err());
    server.start_again().unwrap();
    add(&server, 2);
    server.kill_postmaster().unwrap();
    assert!(server.sql("SELECT 1").is_err());
    server.start_again().unwrap();
    add(&server, 3);
    server.restart_fast().unwrap();
    assert_eq!(kept(&server), "1 2 3");
    assert!(std::fs::read_to_string(server.log()).unwrap().contains("automatic recovery in progress"));

    server.reload(&[("work_mem", "5MB")]).unwrap();
    assert_eq!(server.sql("SHOW work_mem").unwrap(), "5MB");
    let folder = server.data();
    drop(server);
    assert!(!folder.exists());
}

#[test]
fn a_server_that_does_not_stop_is_killed_and_comes_back() {
    let server = server();
    add(&server, 1);
    let file = std::fs::read_to_string(server.data().join("postmaster.pid")).unwrap();
    let postmaster = Pid::from_raw(file.lines().next().unwrap().parse().unwrap()).unwrap();
    kill_process(postmaster, Signal::STOP).unwrap();
    server.stop_immediate().unwrap();
    assert!(server.sql("SELECT 1").is_err());
    server.start_again().unwrap();
    assert_eq!(kept(&server), "1");
}

#[tokio::test]
async fn a_killed_backend_takes_all_sessions_along() {
    let server = server();
    let mut random = fastrand::Rng::with_seed(7);
    let (one, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let (two, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    one.batch_execute("INSERT INTO kept VALUES (1)").await.unwrap();
    tokio::time::timeout(PATIENCE, async {
        while one.simple_query("SELECT 1").await.is_ok() || two.simple_query("SELECT 1").await.is_ok() {
            // The first victim may be a session that was about to end anyhow.
            let _ = server.kill_backend(&mut random);
        }
    })
    .await
    .expect("both sessions end");
    let end = std::time::Instant::now() + PATIENCE;
    while server.sql("SELECT 1").is_err() {
        assert!(end > std::time::Instant::now(), "the server recovers by itself");
    }
    assert_eq!(kept(&server), "1");
}

#[test]
fn a_synchronous_standby_has_what_was_acknowledged() {
    let primary = server();
    let standby = primary.standby(Sync::Sync).unwrap();
    for n in 1..=20 {
        add(&primary, n);
    }
    primary.kill_postmaster().unwrap();
    standby.promote().unwrap();
    add(&standby, 21);
    let all: Vec<String> = (1..=21).map(|n| n.to_string()).collect();
    assert_eq!(kept(&standby), all.join(" "));

    let next = standby.standby(Sync::Async).unwrap();
    add(&standby, 22);
    next.wait_until_caught_up(&standby).unwrap();
    assert_eq!(kept(&next), [all.join(" "), "22".into()].join(" "));
}

#[test]
fn without_its_standby_a_synchronous_primary_acknowledges_nothing() {
    let primary = server();
    let standby = primary.standby(Sync::Sync).unwrap();
    standby.stop_immediate().unwrap();
    std::thread::scope(|scope| {
        let insert = scope.spawn(|| primary.sql("INSERT INTO kept VALUES (1)"));
        let end = std::time::Instant::now() + PATIENCE;
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        while primary.sql(waiting).unwrap() != "1" {
            assert!(!insert.is_finished() && end > std::time::Instant::now(), "the commit waits");
        }
        standby.start_again().unwrap();
        insert.join().unwrap().unwrap();
    });
    standby.wait_until_caught_up(&primary).unwrap();
    assert_eq!(kept(&standby), "1");
}

#[test]
fn pgbouncer_comes_back_on_its_port() {
    if !PgBouncer::available() {
        return eprintln!("{}", left_out("pgbouncer").unwrap());
    }
    let server = server();
    let bouncer = PgBouncer::start(&server, &PoolOptions::default()).unwrap();
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&bouncer.url(), tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            client.simple_query("SELECT 1").await.map(drop)
        })
    };
    ask().unwrap();
    bouncer.restart().unwrap();
    ask().unwrap();
    bouncer.stop();
    assert!(ask().is_err());
    bouncer.start_again().unwrap();
    ask().unwrap();
}

#[test]
fn a_full_disk_stops_the_server_and_room_brings_it_back() {
    if !Tmpfs::available() {
        return eprintln!("this process may not mount: the test of the full disk is left out");
    }
    let disk = Tmpfs::mount(200 << 20).unwrap();
    let settings = vec![("shared_buffers".to_owned(), "16MB".to_owned())];
    let folder = Some(disk.path().to_owned());
    let server = Postgres::start(PostgresOptions { settings, folder, ..Default::default() }).unwrap();
    server.sql("CREATE TABLE kept (n bigint); INSERT INTO kept VALUES (1)").unwrap();
    assert!(disk.fill().unwrap() > 0);
    assert!(server.sql("CREATE TABLE full_disk AS SELECT generate_series(1, 1000000)").is_err());
    disk.free().unwrap();
    server.stop_immediate().unwrap();
    server.start_again().unwrap();
    add(&server, 2);
    assert_eq!(kept(&server), "1 2");
}

fn shell(script: &str) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::null());
    Process::spawn(command).unwrap()
}

#[test]
fn a_process_is_stopped_continued_and_ended() {
    let mut child = shell("while read line; do :; done; sleep 1000 & wait");
    assert!(child.rss_bytes().unwrap() > 0);
    child.stop().unwrap();
    child.term().unwrap();
    assert!(child.status().unwrap().is_none(), "one that stands still does not see the signal");
    child.cont().unwrap();
    assert!(!child.wait(PATIENCE).unwrap().success());
    assert!(child.stop().is_err(), "nobody is left to stop");

    let mut child = shell("sleep 1000");
    assert!(!child.kill().unwrap().success());
}

#[test]
fn a_process_gets_no_more_memory_than_its_cap() {
    let grow = "read go < /dev/stdin; a=0123456789abcdef; while :; do a=$a$a; done";
    let mut command = Command::new("sh");
    command.args(["-c", grow]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Process::spawn(command).unwrap();
    child.cap_memory(64 << 20).unwrap();
    drop(child.stdin());
    assert!(!child.wait(PATIENCE).unwrap().success());
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_secs().cast_signed()
}

#[test]
#[ignore = "a child of the next test, no test of its own"]
fn child_that_tells_the_time() {
    for _line in std::io::stdin().lines() {
        println!("\ntime: {}", now());
    }
}

#[test]
fn the_wall_clock_of_a_process_moves_while_it_runs() {
    if !Clock::available() {
        return eprintln!("{}", left_out("libfaketime").unwrap());
    }
    let clock = Clock::new().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "node::child_that_tells_the_time", "--ignored", "--nocapture"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    clock.give_to(&mut command);
    let mut child = Process::spawn(command).unwrap();
    let (mut input, mut output) = (child.stdin().unwrap(), BufReader::new(child.stdout().unwrap()));
    let mut ask = || {
        std::io::Write::write_all(&mut input, b"now\n").unwrap();
        let its_time = loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child has ended");
            if let Some(time) = line.strip_prefix("time: ") {
                break time.trim().parse::<i64>().unwrap();
            }
        };
        its_time - now()
    };
    assert!((-60..=60).contains(&ask()));
    clock.move_to(-7200.0).unwrap();
    let behind = ask();
    assert!((-7260..=-7140).contains(&behind), "{behind}");
    clock.move_to(86_400.5).unwrap();
    assert!((86_340..=86_460).contains(&ask()));

    let server =
        Postgres::start(PostgresOptions { clock: Some(clock.clone()), ..Default::default() }).unwrap();
    let days = "SELECT round(extract(epoch FROM clock_timestamp()) / 86400)";
    let ahead: i64 = server.sql(days).unwrap().parse().unwrap();
    clock.move_to(86_400.0 * 11.0).unwrap();
    assert!((9..=11).contains(&(server.sql(days).unwrap().parse::<i64>().unwrap() - ahead)));
}
