//! Many unique jobs by one call of plain SQL.

use crate::cluster::Fixture;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio_postgres::{Client, Error};
use windlass_conformance::steps::{LATER, QUEUE, TestWorker, eventually, job, worker_on};
use windlass_core::{Args, JobId, JobStore as _, NewJob, OnConflict, Store, Unique};

/// One row of the answer.
type Row = (i64, Option<String>);

async fn many(schema: &str, client: &Client, jobs: &[String]) -> Result<Vec<Row>, Error> {
    let call = format!("SELECT id, conflict FROM {schema}.enqueue_many_unique($1::text::jsonb)");
    let rows = client.query(&call, &[&format!("[{}]", jobs.join(","))]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

fn message(error: &Error) -> &str {
    error.as_db_error().expect("an error of the server").message()
}

/// A small generator of numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A job as the library takes it, and as the call takes it.
fn some_job(n: &mut Numbers, nth: u64) -> (NewJob, String) {
    let (key, priority) = (n.below(6), i16::try_from(n.below(2)).unwrap());
    let mut unique = Unique::by_key(format!("k{key}"));
    let mut said = format!(
        r#""kind":"k","queue":"{QUEUE}","args":{{"n":{nth}}},"priority":{priority},"unique_key":"k{key}""#
    );
    let window = match n.below(4) {
        0 => {
            unique = unique.until_started();
            said += r#","unique_until":"started""#;
            false
        }
        1 => {
            let hours = 1 + n.below(2);
            unique = unique.for_window(LATER * u32::try_from(hours).unwrap());
            said += &format!(r#","unique_for":"{hours} hours""#);
            true
        }
        _ => false,
    };
    let (rule, word) = match n.below(8) {
        0..3 => (OnConflict::Keep, "keep"),
        3 if window => (OnConflict::Extend, "extend"),
        7 if nth.is_multiple_of(7) => (OnConflict::Error, "error"),
        _ => (OnConflict::Replace { max_wait: None }, "replace"),
    };
    said += &format!(r#","on_conflict":"{word}""#);
    let args = Args::parse(&format!(r#"{{"n": {nth}}}"#)).unwrap();
    let mut job = NewJob::new("k", args).with_queue(QUEUE).with_priority(priority);
    job = job.with_unique(unique.on_conflict(rule));
    if n.below(4) == 0 {
        let at = "2100-01-01T00:00:00Z";
        job = job.with_scheduled_at(at.parse().unwrap());
        said += &format!(r#","scheduled_at":"{at}""#);
    }
    (job, format!("{{{said}}}"))
}

/// Completes the first job that is available, if there is one.
async fn one(worker: &TestWorker) -> Option<JobId> {
    let claims = worker.claim(1).await;
    worker.complete_claims(&claims).await;
    claims.first().map(|claim| claim.jobs[0].id)
}

/// Whatever comes together, the call answers and stores as the library does: which keys are one job, whose rule counts, who is replaced.
#[tokio::test]
async fn a_call_is_as_the_library_has_it() {
    let (by_sql, by_library) = (Fixture::fresh().await, Fixture::fresh().await);
    let client = by_sql.sql().await;
    let sql: Arc<dyn Store> = Arc::new(by_sql.store().await);
    let library: Arc<dyn Store> = Arc::new(by_library.store().await);
    let (sql_worker, library_worker) = (worker_on(&sql).await, worker_on(&library).await);
    let mut n = Numbers(42);
    let mut ids: HashMap<JobId, i64> = HashMap::new();
    for round in 0..150 {
        let size = 1 + n.below(if round % 10 == 0 { 60 } else { 6 });
        let jobs: Vec<_> = (0..size).map(|at| some_job(&mut n, round * 100 + at)).collect();
        let (new, said): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let stored = library.enqueue_unique(&new).await;
        let answer = many(&by_sql.schema, &client, &said).await;
        match (stored, answer) {
            (Ok(stored), Ok(answer)) => {
                assert_eq!(stored.len(), answer.len());
                for (at, (stored, (id, conflict))) in stored.iter().zip(answer).enumerate() {
                    let what = format!("job {at} of round {round}: {}", said[at]);
                    assert_eq!(
                        stored.conflict.map(|conflict| conflict.as_str().to_owned()),
                        conflict,
                        "{what}"
                    );
                    assert_eq!(*ids.entry(stored.id).or_insert(id), id, "{what}");
                    let (a, b) = (library.job(stored.id).await.unwrap(), sql.job(JobId(id)).await.unwrap());
                    let (a, b) = (a.expect("a job of the library"), b.expect("a job of the call"));
                    assert_eq!((a.args, a.state, a.priority), (b.args, b.state, b.priority), "{what}");
                }
            }
            (Err(error), Err(refused)) => {
                let code = refused.code().expect("of the server").code();
                assert_eq!((error.code(), code), ("unique_conflict", "WL007"), "{error}, {refused}");
            }
            (stored, answer) => panic!("round {round}: {stored:?}, {answer:?}"),
        }
        if n.below(2) == 0 {
            let (done, also) = (one(&library_worker).await, one(&sql_worker).await);
            assert_eq!(done.map(|id| ids[&id]), also.map(|id| id.0), "round {round}");
        }
    }
    assert!(ids.len() > 50, "{}", ids.len());
}

/// In order, whatever order the keys are taken in; what breaks a rule is named by its place, and nothing of the call is stored.
#[tokio::test]
async fn answers_come_in_order_and_errors_name_the_place() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let count = fixture.text("SELECT count(*) FROM windlass.jobs");
    assert_eq!(many(&fixture.schema, &client, &[]).await.unwrap(), []);
    let jobs: Vec<_> = (0..200)
        .map(|n| format!(r#"{{"kind":"k","args":{{"user":{n}}},"unique_fields":["user"]}}"#))
        .collect();
    let first = many(&fixture.schema, &client, &jobs).await.unwrap();
    assert!(first.is_sorted() && first.iter().all(|(_, conflict)| conflict.is_none()), "{first:?}");
    let backwards: Vec<_> = jobs.iter().rev().cloned().collect();
    let again = many(&fixture.schema, &client, &backwards).await.unwrap();
    assert!(
        again
            .iter()
            .rev()
            .eq(&first.iter().map(|(id, _)| (*id, Some("kept".to_owned()))).collect::<Vec<_>>())
    );
    let alone = fixture.text(
        "SELECT id, conflict FROM windlass.enqueue_unique('k', '{\"user\": 7.0}', unique_fields => '{user}')",
    );
    let alone = client.query_one(&alone, &[]).await.unwrap();
    assert_eq!((alone.get::<_, i64>(0), alone.get::<_, &str>(1)), (first[7].0, "kept"));
    let before: i64 = client.query_one(&count, &[]).await.unwrap().get(0);
    let new = r#"{"kind":"new"}"#;
    for (second, says) in [
        (
            r#"{"kind":"k","args":{"user":3},"unique_fields":["user"],"on_conflict":"error"}"#.to_owned(),
            format!("job 2: job {} has its unique key", first[3].0),
        ),
        (
            r#"{"kind":"new","on_conflict":"error"}"#.into(),
            "job 2: another job of the same call, job 1, has its unique key".into(),
        ),
        (r#"{"kind":"k","unique_fields":"user"}"#.into(), "unique_fields of job 2 must be an array".into()),
        (r#"{"kind":"k","unique_for":"soon"}"#.into(), "field unique_for of job 2 cannot be read".into()),
        (r#"{"kind":"k","unique_key":7}"#.into(), "unique_key of job 2 must be a string, got 7".into()),
        (
            r#"{"kind":"k","unique":"args"}"#.into(),
            "unknown field 'unique' in a job; known are kind, args, unique_key".into(),
        ),
        (
            r#"{"kind":"k","on_conflict":"drop"}"#.into(),
            "on_conflict must be keep, replace, extend or error".into(),
        ),
        (r#"{"args":{}}"#.into(), "invalid kind NULL".into()),
        ("7".into(), "each job must be a JSON object".into()),
    ] {
        let error = many(&fixture.schema, &client, &[new.to_owned(), second]).await.unwrap_err();
        assert!(message(&error).contains(&says), "{says}: {}", message(&error));
    }
    let after: i64 = client.query_one(&count, &[]).await.unwrap().get(0);
    assert_eq!(after, before, "all or none");
}

/// Of two calls that replace jobs of the same lanes none waits for the other while it has a lane that this one wants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_of_replaced_jobs_are_taken_in_order() {
    let fixture = Fixture::fresh().await;
    let (mut one, other, watcher) = (fixture.sql().await, fixture.sql().await, fixture.sql().await);
    let said = |key: &str, queue: &str| {
        format!(r#"{{"kind":"k","unique_key":"{key}","queue":"{queue}","on_conflict":"replace"}}"#)
    };
    let all = [said("1a", "a"), said("1b", "b"), said("2a", "a"), said("2b", "b")];
    many(&fixture.schema, &one, &all).await.unwrap();
    let pid: i32 = other.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let tx = one.transaction().await.unwrap();
    let begun = many(&fixture.schema, tx.client(), &[said("1a", "a")]).await.unwrap();
    assert_eq!(begun[0].1.as_deref(), Some("replaced"));
    let (schema, both) = (fixture.schema.clone(), [said("2b", "b"), said("2a", "a")]);
    let call = tokio::spawn(async move { many(&schema, &other, &both).await });
    eventually("the other call waits", || async {
        let waits = "SELECT count(*) > 0 FROM pg_locks WHERE pid = $1 AND NOT granted";
        watcher.query_one(waits, &[&pid]).await.unwrap().get::<_, bool>(0).then_some(())
    })
    .await;
    let mine = many(&fixture.schema, tx.client(), &[said("1b", "b")]).await.expect("no deadlock");
    assert_eq!(mine[0].1.as_deref(), Some("replaced"));
    tx.commit().await.unwrap();
    let theirs = call.await.unwrap().expect("no deadlock");
    assert!(theirs.iter().all(|(_, conflict)| conflict.as_deref() == Some("replaced")), "{theirs:?}");
}

/// Calls that want the same keys in other orders wait for each other, and none for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_share_their_keys() {
    let fixture = Fixture::fresh().await;
    for round in 0..20 {
        let jobs: Vec<_> = (0..30).map(|n| format!(r#"{{"kind":"k","unique_key":"{round}/{n}"}}"#)).collect();
        let backwards: Vec<_> = jobs.iter().rev().cloned().collect();
        let (a, b) = (fixture.sql().await, fixture.sql().await);
        let (a, b) = tokio::join!(many(&fixture.schema, &a, &jobs), many(&fixture.schema, &b, &backwards));
        let (a, mut b) = (a.expect("no deadlock"), b.expect("no deadlock"));
        b.reverse();
        for ((id, mine), (other, theirs)) in a.iter().zip(&b) {
            assert_eq!(id, other);
            assert!(mine.is_none() != theirs.is_none(), "one of them stored it");
        }
    }
}

/// A job that expires after a time is unique by any driver, too.
#[tokio::test]
async fn a_statement_for_any_driver_tells_when_a_unique_job_expires() {
    let fixture = Fixture::shared().await;
    let (store, client) = (fixture.store().await, fixture.sql().await);
    let new = |key: &str| job().with_unique(Unique::by_key(key)).with_expiry(LATER);
    let call = store.enqueue_many_sql(&[new("any driver"), job(), new("another").with_tag("t")]).unwrap();
    let windlass_postgres::SqlParam::Text(jobs) = &call.params[0] else { panic!("{call:?}") };
    let rows = client.query(&call.text, &[jobs]).await.unwrap();
    let lives = async |at: usize| {
        let job = store.job(JobId(rows[at].get(0))).await.unwrap().unwrap();
        job.expires_at.map(|at| Duration::try_from(at.duration_since(job.enqueued_at)).unwrap())
    };
    assert!(lives(0).await >= Some(LATER) && lives(1).await.is_none() && lives(2).await >= Some(LATER));
    let again = store.enqueue_unique(&[new("another")]).await.unwrap()[0];
    assert_eq!(again.id.0, rows[2].get::<_, i64>(0));
}
