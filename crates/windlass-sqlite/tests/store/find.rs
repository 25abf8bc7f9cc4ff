//! A job is found by its id: by what is noted of the lanes of numbers, or in any lane where an older program took the number.

use crate::{
    fixture::{Fixture, job},
    idle_lanes::{DAY, run, sql},
    older_schema::file_of,
};
use rusqlite::Connection;
use windlass_core::{
    CancelReply, EventCursor, EventRequest, JobId, JobState, JobStore, NewJob, RetryReply, Settings,
};
use windlass_sqlite::{SqliteOptions, SqliteStore};

/// What a program of version 20 writes to enqueue a job in this lane.
const ADD_OF_20: &str = "INSERT INTO job (pos, kind, args, attempt, max_attempts, crash_count, enqueued_at)
        SELECT {lane} << 45 | next_sequence, 'test', '{}', 0, 20, 0, 1 FROM log_state;
    UPDATE lane SET available = available + 1 WHERE id = {lane};
    UPDATE log_state SET next_sequence = next_sequence + 1;";

fn of_queue(n: usize) -> NewJob {
    job("test").with_queue(format!("queue{n}")).with_priority((n % 3) as i16)
}

async fn queue_of(store: &SqliteStore, id: JobId) -> String {
    store.job(id).await.unwrap().expect("the job is found").queue
}

fn rows(f: &Fixture) -> i64 {
    sql(f).query_one("SELECT count(*) FROM number_lane", [], |row| row.get(0)).unwrap()
}

/// Of two programs, in bulk and one by one, so that each finds what the other noted meanwhile.
async fn add_in_turn(f: &Fixture, others: &SqliteStore) -> Vec<(JobId, String)> {
    let mut added = Vec::new();
    for round in 0..40 {
        for (store, size) in [(&f.store, 1 + round % 7), (others, 1 + round % 5), (&f.store, 11)] {
            let jobs: Vec<_> = (0..size).map(|n| of_queue((n * n + round) % 7)).collect();
            let ids = store.enqueue(&jobs).await.unwrap();
            added.extend(ids.into_iter().zip(jobs.iter().map(|job| job.queue().to_owned())));
        }
    }
    added
}

#[tokio::test]
async fn every_job_is_found_in_its_queue() {
    let f = Fixture::new();
    let others = f.another();
    let added = add_in_turn(&f, &others).await;
    assert!(rows(&f) > 2);
    for (id, queue) in &added {
        assert_eq!(queue_of(&others, *id).await, *queue);
    }
    let (cancelled, kept) = added.split_at(100);
    let ids: Vec<_> = cancelled.iter().map(|(id, _)| *id).collect();
    assert_eq!(others.cancel(&ids).await.unwrap(), vec![CancelReply::Cancelled; 100]);
    assert_eq!(f.retry(&ids[50..]).await.unwrap(), vec![RetryReply::Retried; 50]);
    for (id, queue) in &added {
        assert_eq!(queue_of(&f, *id).await, *queue);
    }
    let next = JobId(kept.last().unwrap().0.0 + 1_000);
    assert!(f.job(next).await.unwrap().is_none());
    let found = f.ended(&[added[0].0, kept[0].0, next]).await.unwrap();
    assert_eq!((found.jobs.len(), found.unknown), (1, vec![next]));
}

#[tokio::test]
async fn what_was_noted_of_jobs_that_are_gone_is_removed() {
    let f = Fixture::new();
    f.configure(&Settings::DEFAULT.with_retention(DAY)).await.unwrap();
    let old = add_in_turn(&f, &f.another()).await;
    let before = rows(&f);
    // One of the first stays, as does what was noted beside it.
    let stays = f.enqueue(&[job("test").with_queue("stays")]).await.unwrap()[0];
    let more = add_in_turn(&f, &f.another()).await;
    let queues: Vec<_> = (0..7).map(|n| format!("queue{n}")).collect();
    while !run(&f.store, &queues).await.is_empty() {}
    f.maintain().await.unwrap();
    assert!(rows(&f) > 2 * before - 1, "jobs that completed can be asked for");
    assert_eq!(queue_of(&f, old[7].0).await, old[7].1);
    f.advance(2 * DAY);
    f.maintain().await.unwrap();
    f.maintain().await.unwrap();
    assert!(f.job(more[0].0).await.unwrap().is_none());
    // The row of the job that stays, and the newest, of which nothing says where it ends.
    assert_eq!(rows(&f), 2);
    assert_eq!(queue_of(&f, stays).await, "stays");
    let new = add_in_turn(&f, &f.another()).await;
    for (id, queue) in new {
        assert_eq!(queue_of(&f, id).await, queue);
    }
}

fn older_adds(conn: &Connection, lane: i64) -> JobId {
    conn.execute_batch(&ADD_OF_20.replace("{lane}", &lane.to_string())).unwrap();
    let last = "SELECT next_sequence - 1 FROM log_state";
    JobId(conn.query_one(last, [], |row| row.get(0)).unwrap())
}

/// Before a newer program writes again, and after it.
#[tokio::test]
async fn jobs_of_an_older_program_are_found_beside_newer_ones() {
    let f = Fixture::new();
    f.enqueue(&(0..7).map(of_queue).collect::<Vec<_>>()).await.unwrap();
    let older = sql(&f);
    let lane = |queue: &str| {
        let find = "SELECT lane.id FROM lane JOIN queue ON queue.id = lane.queue WHERE name = ?1";
        older.query_one(find, [queue], |row| row.get::<_, i64>(0)).unwrap()
    };
    let mut added = Vec::new();
    for round in 0..3 {
        for n in [0, 5, 2, 2] {
            let queue = format!("queue{n}");
            added.push((older_adds(&older, lane(&queue)), queue));
            assert_eq!(queue_of(&f, added.last().unwrap().0).await, added.last().unwrap().1);
        }
        let newer = f.enqueue(&[of_queue(round + 1), of_queue(6)]).await.unwrap();
        added.extend([(newer[0], format!("queue{}", round + 1)), (newer[1], "queue6".to_owned())]);
        for (id, queue) in &added {
            assert_eq!(queue_of(&f, *id).await, *queue, "{id}");
        }
    }
    let request = EventRequest { limit: 1_000, ..EventRequest::after(EventCursor::start()) };
    let told: Vec<_> = f.events(&request).await.unwrap().events.iter().map(|event| event.job.0).collect();
    assert_eq!(told, (1..=7 + 18).collect::<Vec<_>>());
    assert_eq!(f.cancel(&[added[1].0]).await.unwrap(), [CancelReply::Cancelled]);
}

#[tokio::test]
async fn jobs_of_a_file_of_the_version_before_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let older = file_of(20, &path);
    older
        .execute_batch(
            "INSERT INTO queue (id, name) VALUES (1, 'a'), (2, 'b');
            INSERT INTO lane (id, queue, priority, cursor) VALUES (2, 1, 0, 2 << 45), (4, 2, 0, 4 << 45);",
        )
        .unwrap();
    let of_a = [older_adds(&older, 2), older_adds(&older, 2)];
    let of_b = older_adds(&older, 4);
    let store = SqliteStore::open(path.to_str().unwrap(), SqliteOptions::default()).unwrap();
    let newer = store.enqueue(&[job("test").with_queue("b"), job("test").with_queue("a")]).await.unwrap();
    for (id, queue) in [(of_a[0], "a"), (of_a[1], "a"), (of_b, "b"), (newer[0], "b"), (newer[1], "a")] {
        assert_eq!(queue_of(&store, id).await, queue);
    }
    let later = older_adds(&older, 4);
    assert_eq!(queue_of(&store, later).await, "b", "it works on beside");
    assert_eq!(store.job(of_b).await.unwrap().unwrap().state, JobState::Available);
}
