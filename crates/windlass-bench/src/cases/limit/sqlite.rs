use super::plan::{BATCH, CLIENTS, COLUMNS, KIND, Plan, ROUNDS, Times};
use rusqlite::{Connection, params};
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};
use windlass::sqlite_file;
use windlass_cli::failure::{Failure, Outcome};

/// Measures inserts in transactions and one SELECT, in a temporary file beside that of the store, with the same
/// settings.
pub(super) fn measure(url: &str, plan: &Plan) -> Outcome<Times> {
    let beside = sqlite_file(url).and_then(|path| Path::new(path).parent()).unwrap_or(Path::new("."));
    let folder = tempfile::Builder::new().prefix("windlass-limit-").tempdir_in(beside)?;
    let normal = url.to_ascii_lowercase().contains("synchronous=normal");
    let file = folder.path().join("limit.db");
    let found = run((&file, normal), plan);
    found.map_err(|error| Failure::failed("unavailable", format!("cannot measure the limit: {error}")))
}

fn connect((path, normal): (&Path, bool)) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(Duration::from_secs(10))?;
    conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", if normal { "NORMAL" } else { "FULL" })?;
    Ok(conn)
}

fn run(file: (&Path, bool), plan: &Plan) -> rusqlite::Result<Times> {
    let mut conn = connect(file)?;
    let create = format!("DROP TABLE IF EXISTS job; CREATE TABLE job ({COLUMNS}, kind text, args text)");
    let (mut write, mut read) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        conn.execute_batch(&create)?;
        let asked = Instant::now();
        insert(&mut conn, plan.rows)?;
        write = write.min(asked.elapsed());
        let asked = Instant::now();
        select(&conn)?;
        read = read.min(asked.elapsed());
    }
    let commits = CLIENTS.map(|clients| commit(file, clients, plan.commits_for));
    let [one, many] = commits;
    Ok(Times { write, read, commits: [one?, many?] })
}

const INSERT: &str = "INSERT INTO job VALUES (?1, 0, 1, 0, 0, 20, 0, ?1, ?2, ?3)";

fn insert(conn: &mut Connection, rows: u64) -> rusqlite::Result<()> {
    for from in (0..rows).step_by(BATCH as usize) {
        let batch = conn.transaction()?;
        {
            let mut insert = batch.prepare_cached(INSERT)?;
            for id in from..rows.min(from + BATCH) {
                insert.execute(params![id as i64, KIND, format!("{{\"id\":{id}}}")])?;
            }
        }
        batch.commit()?;
    }
    Ok(())
}

fn select(conn: &Connection) -> rusqlite::Result<()> {
    let mut select = conn.prepare("SELECT id, attempt, max_attempts, crash_count, kind, args FROM job")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        // The columns that a worker needs: SQLite decodes a column only when it is read.
        for column in 0..4 {
            row.get_ref(column)?;
        }
        std::hint::black_box((row.get_ref(4)?, row.get_ref(5)?));
    }
    Ok(())
}

/// How many transactions of one row `clients` connections commit.
fn commit(file: (&Path, bool), clients: usize, time: Duration) -> rusqlite::Result<u64> {
    thread::scope(|scope| {
        let commit = || {
            let conn = connect(file)?;
            let mut insert = conn.prepare(INSERT)?;
            let (started, mut count) = (Instant::now(), 0);
            while started.elapsed() < time {
                insert.execute(params![count as i64, KIND, "{\"id\":1}"])?;
                count += 1;
            }
            Ok::<u64, rusqlite::Error>(count)
        };
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(commit)).collect();
        let counts = threads.into_iter().map(|thread| match thread.join() {
            Ok(count) => count,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        counts.sum()
    })
}
