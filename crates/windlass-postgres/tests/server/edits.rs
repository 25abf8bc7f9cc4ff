//! Editing and deleting where the log is append-only, and in SQL.

use crate::cluster::Fixture;
use std::{sync::Arc, time::Duration};
use windlass_conformance::steps::{args, enqueue_jobs, worker_on};
use windlass_core::{Disposition, EditReply, ErrorKind, JobEdit, JobId, RetryReply, Store};

/// What SQL users call answers in words, and refuses what enqueue refuses.
#[tokio::test]
async fn sql_users_edit_and_delete() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    client.batch_execute("SET plpgsql.extra_errors = 'all'").await.unwrap(); // as a role may have it, for functions of its own
    let id: i64 = client.query_one(&fixture.text("SELECT windlass.enqueue('k')"), &[]).await.unwrap().get(0);
    let ask = async |text: &str| {
        let text = fixture.text(&text.replace("{id}", &id.to_string()));
        client.query_one(&text, &[]).await.map(|row| row.get::<_, String>(0))
    };
    let edit =
        r#"SELECT windlass.edit({id}, queue => 'q', priority => 7, max_attempts => 2, args => '{"a": 1}')"#;
    assert_eq!(ask(edit).await.unwrap(), "edited");
    assert_eq!(ask("SELECT windlass.edit({id}, now() + interval '1 hour')").await.unwrap(), "edited");
    let seen = "SELECT concat_ws(' ', state, queue, priority, max_attempts, args) FROM windlass.jobs WHERE id = {id}";
    assert_eq!(ask(seen).await.unwrap(), r#"scheduled q 7 2 {"a": 1}"#);
    assert_eq!(ask("SELECT windlass.edit({id}, '-infinity')").await.unwrap(), "edited");
    assert_eq!(ask(seen).await.unwrap(), r#"available q 7 2 {"a": 1}"#);
    for (call, says) in [
        ("{id}", "changes nothing"),
        ("{id}, 'infinity'", "finite"),
        ("{id}, priority => 101", "priority must be"),
        ("{id}, queue => 'a b'", "invalid queue name"),
        ("{id}, max_attempts => 0", "max_attempts must be"),
        ("{id}, args => '1e400'", "beyond 1.8e308"),
        ("{id}, args => repeat('[', 70)::text::jsonb", "invalid input"),
        ("{id}, args => (repeat('[', 70) || repeat(']', 70))::jsonb", "nest deeper"),
        ("{id}, args => to_jsonb(repeat('x', 1100000))", "the limit is 1048576"),
        // Escaped, because the schema has another name here.
        (r#"{id}, args => '{"\u0077indlass.enc": {}}'"#, "sealed for one job"),
    ] {
        let error = ask(&format!("SELECT windlass.edit({call})")).await.expect_err(call);
        let told = error.as_db_error().expect("an error of the server").message();
        assert!(told.contains(says), "{call}: {told}");
    }
    assert_eq!(ask(seen).await.unwrap(), r#"available q 7 2 {"a": 1}"#);
    assert_eq!(ask("SELECT windlass.delete({id})").await.unwrap(), "deleted");
    assert_eq!(ask("SELECT windlass.delete({id})").await.unwrap(), "not_found");
    assert_eq!(ask("SELECT windlass.edit({id}, priority => 1)").await.unwrap(), "not_found");
}

/// A job that leaves its row in the log goes to a second lane of its queue, all together to one; the same edit again moves none.
#[tokio::test]
async fn edits_make_few_lanes() {
    let fixture = Fixture::fresh().await;
    let (store, client) = (Arc::new(fixture.store().await) as Arc<dyn Store>, fixture.sql().await);
    let ids = enqueue_jobs(&store, 200).await;
    let number =
        async |text: &str| client.query_one(&fixture.text(text), &[]).await.unwrap().get::<_, i64>(0);
    for _ in 0..2 {
        let edit = JobEdit::new().with_args(args(900));
        assert_eq!(store.edit(&ids[100..], &edit).await.unwrap(), vec![EditReply::Edited; 100]);
        assert_eq!(number("SELECT count(*) FROM windlass.lane").await, 2);
        assert_eq!(number("SELECT count(*) FROM windlass.cancelled_in_log").await, 100);
        assert_eq!(number("SELECT count(*) FROM windlass.job").await, 300);
    }
    // Where they stood is stepped over, so that they may stand there again.
    let worker = worker_on(&store).await;
    assert_eq!(worker.take(100).await.last().unwrap().job.id, ids[99]);
    assert_eq!(worker.take(1).await[0].job.id, ids[100]);
    assert_eq!(number("SELECT count(*) FROM windlass.cancelled_in_log").await, 0);
    store.edit(&ids[150..], &JobEdit::new().with_args(args(901))).await.unwrap();
    assert_eq!(number("SELECT count(*) FROM windlass.lane").await, 2);
    assert_eq!(worker.drain(7).await.len(), 99);
}

/// Somebody wanted a job cancelled while its attempt failed: a retry, and a job that takes its place, are not cancelled by that.
#[tokio::test]
async fn what_comes_after_a_cancellation_is_not_cancelled_by_it() {
    let fixture = Fixture::fresh().await;
    let (store, client) = (Arc::new(fixture.store().await) as Arc<dyn Store>, fixture.sql().await);
    let number =
        async |text: &str| client.query_one(&fixture.text(text), &[]).await.unwrap().get::<_, i64>(0);
    let wanted = async |id: JobId| {
        let ask = format!(
            "INSERT INTO windlass.cancel_request (job_id, lane_id, seq, worker_id) VALUES ({id}, 1, 1, 1)"
        );
        client.batch_execute(&fixture.text(&ask)).await.unwrap();
    };
    let id = enqueue_jobs(&store, 1).await[0];
    let worker = worker_on(&store).await;
    let failed = Disposition::Retry { delay: Duration::from_secs(3600), error: "no".into() };
    worker.except(&worker.take_one().await, failed).await;
    wanted(id).await;
    assert_eq!(store.retry(&[id]).await.unwrap(), [RetryReply::Retried]);
    assert_eq!(number("SELECT count(*) FROM windlass.cancel_request").await, 0);
    let put = "SELECT (windlass.enqueue_unique('k', unique_key => 'a', scheduled_at => now() + interval '1 hour', on_conflict => 'replace')).id";
    let unique = JobId(number(put).await);
    wanted(unique).await;
    assert_eq!(number(put).await, unique.0);
    assert_eq!(number("SELECT count(*) FROM windlass.cancel_request").await, 0);
}

/// A job that moves whenever it is looked for: who wants it cancelled is told that it was not, instead of that its worker knows.
#[tokio::test]
async fn a_cancel_that_never_finds_its_job_says_so() {
    let fixture = Fixture::fresh().await;
    let (store, client) = (Arc::new(fixture.store().await) as Arc<dyn Store>, fixture.sql().await);
    let id = enqueue_jobs(&store, 1).await[0];
    let moves = "CREATE OR REPLACE FUNCTION windlass.find_locked(
            p_id bigint, OUT place text, OUT lane_id integer, OUT xid xid8, OUT seq bigint, OUT worker_id integer,
            OUT claimed_at timestamptz, OUT settled_at timestamptz) LANGUAGE plpgsql AS $$ BEGIN place := 'moved'; END $$";
    client.batch_execute(&fixture.text(moves)).await.unwrap();
    let cancel = fixture.text(&format!("SELECT windlass.cancel({id})"));
    let error = client.query_one(&cancel, &[]).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "55P03", "{error}");
    let error = store.cancel(&[id]).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("try again"), "{error}");
}
