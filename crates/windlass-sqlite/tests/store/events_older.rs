//! Events beside programs of the version before, which know a row for each job that the log does not tell of: their statements, run by hand.

use crate::fixture::{Fixture, jobs};
use rusqlite::Connection;
use std::time::Duration;
use windlass_core::{EventCursor, EventRequest, JobStore, NewJob};

const ELSEWHERE_OF_19: &str =
    "SELECT sequence FROM enqueued_elsewhere WHERE sequence BETWEEN 1 AND 1000 ORDER BY sequence";
const TELL_OF_19: &str = "INSERT INTO enqueued_elsewhere (sequence, at, lane, kind)
    SELECT 900, max(at), lane, 'test' FROM enqueued_elsewhere";
const REMOVE_OF_19: &str =
    "DELETE FROM enqueued_elsewhere WHERE sequence IN (SELECT sequence FROM enqueued_elsewhere
    WHERE sequence <= 5 ORDER BY sequence LIMIT 5000)";

fn later(count: usize) -> Vec<NewJob> {
    jobs(count).into_iter().map(|job| job.with_delay(Duration::from_secs(3600))).collect()
}

fn numbers(conn: &Connection, sql: &str) -> Vec<i64> {
    conn.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn an_older_program_reads_and_writes_what_is_told_of_jobs_for_later() {
    let f = Fixture::new();
    f.enqueue(&later(5)).await.unwrap();
    f.enqueue(&later(3)).await.unwrap();
    let older = Connection::open(f.path()).unwrap();
    assert_eq!(numbers(&older, "SELECT last - first FROM enqueued_range ORDER BY first"), [4, 2]);
    assert_eq!(numbers(&older, ELSEWHERE_OF_19), [1, 2, 3, 4, 5, 6, 7, 8]);
    older.execute_batch(TELL_OF_19).unwrap();
    older.execute_batch("UPDATE log_state SET next_sequence = 901").unwrap();
    let page =
        f.events(&EventRequest { limit: 1_000, ..EventRequest::after(EventCursor::start()) }).await.unwrap();
    let told: Vec<i64> = page.events.iter().map(|event| event.job.0).collect();
    assert_eq!(told, [1, 2, 3, 4, 5, 6, 7, 8, 900]);
    older.execute_batch(REMOVE_OF_19).unwrap();
    assert_eq!(numbers(&older, ELSEWHERE_OF_19), [6, 7, 8, 900]);
}
