//! What SQL does to all jobs that a filter selects.

use crate::{cluster::connect, session::Session};
use std::sync::Arc;
use windlass_conformance::steps::worker_on;
use windlass_core::Store;
use windlass_postgres::Access;

impl Session {
    /// How many were selected, and how many of them done.
    async fn call(&self, call: &str) -> (i64, i64) {
        let row = self.row(&format!("CALL windlass.{call}")).await;
        (row.get(0), row.get(1))
    }

    async fn refused(&self, call: &str) -> String {
        self.refusal(&format!("CALL windlass.{call}")).await.1
    }

    async fn enqueue(&self, count: usize, options: &str) {
        let enqueue = format!("PERFORM windlass.enqueue({options}) FROM generate_series(1, {count})");
        self.run(&format!("DO $$ BEGIN {enqueue}; END $$")).await;
    }
}

#[tokio::test]
async fn a_filter_selects_and_a_dry_run_changes_nothing() {
    let s = Session::fresh().await;
    s.enqueue(1_200, "'a', '{\"plan\": \"pro\", \"n\": 1}', queue => 'mail', tags => '{urgent}'").await;
    s.enqueue(3, "'b', queue => 'mail'").await;
    s.enqueue(2, "'a', queue => 'mail', scheduled_at => now() + interval '1 day'").await;
    s.enqueue(5, "'a'").await;
    assert_eq!(s.call("cancel_jobs(queue => 'mail', kind => 'a', dry_run => true)").await, (1_202, 1_202));
    assert_eq!(s.call("cancel_jobs(tag => 'urgent', most => 7, dry_run => true)").await, (7, 7));
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.jobs WHERE state = 'cancelled'").await, 0);
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.audit").await, 0);
    assert_eq!(s.call("cancel_jobs(args => '{\"plan\": \"pro\"}', most => 700)").await, (700, 700));
    assert_eq!(s.call("cancel_jobs(queue => 'mail', kind => 'a')").await, (502, 502));
    let left = "SELECT string_agg(concat_ws(' ', queue, kind, n), ', ' ORDER BY queue, kind)
                FROM (SELECT queue, kind, count(*) AS n FROM windlass.jobs WHERE state <> 'cancelled' GROUP BY 1, 2) AS x";
    assert_eq!(s.value::<String>(left).await, "default a 5, mail b 3");
    // Back, with an error of nobody; and gone.
    assert_eq!(s.call("retry_jobs(state => 'cancelled', kind => 'a', most => 600)").await, (600, 600));
    assert_eq!(s.call("delete_jobs(state => 'cancelled')").await, (602, 602));
    assert_eq!(s.call("delete_jobs(everything => true)").await, (608, 608));
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.jobs").await, 0);
    let noted = "SELECT string_agg(concat_ws(' ', actor, via, action, target, filter, count), E'\\n' ORDER BY id) FROM windlass.audit";
    assert_eq!(
        s.value::<String>(noted).await,
        "postgres sql jobs.cancel jobs {\"args\":{\"plan\":\"pro\"}} 700
postgres sql jobs.cancel jobs {\"queue\":\"mail\",\"kind\":\"a\"} 502
postgres sql jobs.retry jobs {\"state\":\"cancelled\",\"kind\":\"a\"} 600
postgres sql jobs.delete jobs {\"state\":\"cancelled\"} 602
postgres sql jobs.delete jobs {} 608"
    );
}

#[tokio::test]
async fn each_job_is_edited_once_wherever_it_goes() {
    let s = Session::fresh().await;
    s.enqueue(1_100, "'a', priority => 3").await;
    s.enqueue(2, "'a', priority => 3, scheduled_at => now() + interval '1 day'").await;
    // To a lane that is listed behind theirs.
    assert_eq!(
        s.call("edit_jobs('{\"priority\": 9, \"max_attempts\": 4}', kind => 'a')").await,
        (1_102, 1_102)
    );
    let seen =
        "SELECT string_agg(DISTINCT concat_ws(' ', state, priority, max_attempts), ', ') FROM windlass.jobs";
    assert_eq!(s.value::<String>(seen).await, "available 9 4, scheduled 9 4");
    assert_eq!(
        s.call("edit_jobs('{\"scheduled_at\": \"2100-01-01 00:00Z\"}', state => 'available')").await,
        (1_100, 1_100)
    );
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.jobs WHERE state = 'scheduled'").await, 1_102);
    // What is dead is edited where its state is named, and stays dead.
    s.call("cancel_jobs(kind => 'a', most => 10)").await;
    assert_eq!(s.call("edit_jobs('{\"args\": {\"n\": 1}}', state => 'cancelled')").await, (10, 10));
    assert_eq!(
        s.value::<i64>("SELECT count(*) FROM windlass.jobs WHERE state = 'cancelled' AND args->>'n' = '1'")
            .await,
        10
    );
}

#[tokio::test]
async fn running_jobs_are_asked_to_stop() {
    let s = Session::fresh().await;
    let store = Arc::new(s.fixture.store().await) as Arc<dyn Store>;
    s.enqueue(3, "'k', queue => 'q'").await;
    let _held = worker_on(&store).await.take(2).await;
    assert_eq!(s.call("cancel_jobs(queue => 'q')").await, (3, 3));
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.cancel_request").await, 2);
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.jobs WHERE state = 'cancelled'").await, 1);
    assert_eq!(s.call("delete_jobs(queue => 'q')").await, (1, 1), "not those that run");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_is_done() {
    let s = Session::fresh().await;
    s.enqueue(2, "'k'").await;
    for (call, says) in [
        ("cancel_jobs()", "the filter selects every job"),
        ("cancel_jobs(state => 'completed')", "cannot cancel completed jobs"),
        ("retry_jobs(state => 'available')", "cannot retry available jobs"),
        ("delete_jobs(state => 'running')", "cannot delete running jobs"),
        ("cancel_jobs(kind => 'k', per_second => 0)", "more than 0, got 0"),
        ("cancel_jobs(kind => 'k', per_second => 'NaN')", "more than 0, got NaN"),
        ("cancel_jobs(kind => 'k', most => -1)", "most must be 0 or more"),
        ("cancel_jobs(error => '')", "1 to 1000 bytes"),
        ("cancel_jobs(args => '[1]')", "must be a JSON object"),
        ("cancel_jobs(args => '{}')", "must be a JSON object"),
        ("edit_jobs('{}', kind => 'k')", "changes nothing"),
        ("edit_jobs('[]', kind => 'k')", "changes nothing"),
        ("edit_jobs('{\"kind\": \"x\"}', kind => 'k')", "a job has no 'kind'"),
        ("edit_jobs('{\"priority\": 101}', kind => 'k', dry_run => true)", "priority must be"),
        ("edit_jobs('{\"priority\": \"high\"}', kind => 'k')", "invalid input syntax for type integer"),
        (
            "edit_jobs('{\"scheduled_at\": \"2100-01-01\"}', state => 'cancelled')",
            "cannot edit cancelled jobs",
        ),
    ] {
        let told = s.refused(call).await;
        assert!(told.contains(says), "{call}: {told}");
    }
    s.run("BEGIN").await;
    let told = s.refused("cancel_jobs(kind => 'k')").await;
    assert!(told.contains("transaction"), "{told}");
    s.run("ROLLBACK").await;
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.jobs WHERE state = 'available'").await, 2);
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.audit").await, 0);
}

#[tokio::test]
async fn operators_may_and_viewers_may_not() {
    let s = Session::fresh().await;
    s.enqueue(2, "'k'").await;
    let call = s.fixture.text("CALL windlass.cancel_jobs(kind => 'k')");
    let viewer = s.fixture.role("viewer", &[Access::Viewer]).await;
    let refused = connect(viewer.split('?').next().unwrap()).await.query_one(&call, &[]).await.unwrap_err();
    let told = refused.as_db_error().unwrap().message().to_owned();
    assert_eq!(told, "permission denied for procedure cancel_jobs");
    let operator = s.fixture.role("operator", &[Access::Operator]).await;
    let row = connect(operator.split('?').next().unwrap()).await.query_one(&call, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 2));
    let actor = s.value::<String>("SELECT actor FROM windlass.audit").await;
    assert_eq!(actor, format!("{}_operator", s.fixture.name));
}
