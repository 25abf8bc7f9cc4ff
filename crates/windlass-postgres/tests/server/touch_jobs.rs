//! What SQL does to all jobs that a filter selects.

use crate::{cluster::connect, session::Session};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use windlass_conformance::steps::{eventually, held, worker_on};
use windlass_core::{Disposition, Store};
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

    /// The statement that takes the lock of a queue's lane.
    async fn lock(&self, queue: &str) -> String {
        let lane: i32 = self.value(&format!("SELECT id FROM windlass.lane WHERE queue = '{queue}'")).await;
        format!("SELECT pg_advisory_xact_lock(hashtext('{}.lane'), {lane})", self.fixture.schema)
    }

    async fn until_waited_for(&self, queue: &str) {
        let waits = format!(
            "SELECT count(*) FROM pg_locks k JOIN windlass.lane l ON l.id::oid = k.objid WHERE NOT k.granted AND l.queue = '{queue}'
             AND k.locktype = 'advisory' AND k.classid::bigint & 4294967295 = hashtext('{}.lane')::bigint & 4294967295",
            self.fixture.schema
        );
        let look = || async { (self.value::<i64>(&waits).await > 0).then_some(()) };
        eventually("somebody waits for the lane", look).await;
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

/// However slowly it goes: between two jobs it holds no snapshot for more than a second.
#[tokio::test]
async fn a_slow_call_holds_no_snapshot_for_long() {
    let s = Session::fresh().await;
    s.enqueue(2, "'k'").await;
    let call = s.fixture.text("CALL windlass.cancel_jobs(kind => 'k', per_second => 0.001)");
    let slow = s.fixture.sql().await;
    let pid: i32 = slow.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let slow = tokio::spawn(async move { slow.batch_execute(&call).await });
    let sleeps =
        format!("SELECT xact_start::text FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'PgSleep'");
    let since =
        || async { s.client.query_opt(&sleeps, &[]).await.unwrap().map(|row| row.get::<_, String>(0)) };
    let first = eventually("it rests", since).await;
    eventually("another transaction", || async { since().await.filter(|since| *since != first) }).await;
    s.run(&format!("SELECT pg_cancel_backend({pid})")).await;
    slow.await.unwrap().expect_err("cancelled");
    let noted = "SELECT count || ' ' || outcome FROM windlass.audit";
    assert_eq!(s.value::<String>(noted).await, "1 57014");
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
        ("cancel_jobs(state => 'foo')", "unknown job state 'foo'; use one of scheduled, available,"),
        ("cancel_jobs(state => 'blocked')", "unknown job state 'blocked'"),
        ("cancel_jobs(queue => '')", "invalid queue name ''; use 1 to 128 of letters"),
        ("retry_jobs(queue => 'ä ö')", "invalid queue name 'ä ö'"),
        ("delete_jobs(kind => 'a b')", "invalid kind 'a b'; use 1 to 200 bytes"),
        ("edit_jobs('{\"priority\": 1}', tag => '')", "a tag must be 1 to 100 bytes"),
        ("cancel_jobs(args => '[1]')", "must be a JSON object"),
        ("cancel_jobs(args => '{}')", "must be a JSON object"),
        ("edit_jobs('{}', kind => 'k')", "changes nothing"),
        ("edit_jobs('[]', kind => 'k')", "changes nothing"),
        ("edit_jobs('{\"kind\": \"x\"}', kind => 'k')", "a job has no 'kind'"),
        ("edit_jobs('{\"priority\": 101}', kind => 'k', dry_run => true)", "priority must be"),
        (
            "edit_jobs('{\"priority\": \"high\"}', kind => 'k')",
            "field priority of the edit cannot be read: invalid",
        ),
        (
            "edit_jobs('{\"scheduled_at\": \"soon\"}', kind => 'k')",
            "field scheduled_at of the edit cannot be read",
        ),
        (
            "edit_jobs('{\"scheduled_at\": \"2100-01-01\"}', state => 'cancelled')",
            "a time cannot be set for cancelled jobs; use retry_jobs",
        ),
    ] {
        let told = s.refused(call).await;
        assert!(told.contains(says), "{call}: {told}");
    }
    s.run("BEGIN").await;
    let call = s.fixture.text("CALL windlass.cancel_jobs(kind => 'k')");
    let told = s.client.batch_execute(&call).await.unwrap_err();
    let told = told.as_db_error().unwrap();
    // The message is the server's own, and cannot be another.
    assert!(told.message().contains("transaction"), "{told}");
    assert!(
        told.where_().is_some_and(|place| place.contains("not within a transaction: it commits as it goes")),
        "{told:?}"
    );
    s.run("ROLLBACK").await;
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.jobs WHERE state = 'available'").await, 2);
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.audit").await, 0);
}

/// What is retried and fails again at once waits behind where the call is, and is left alone.
#[tokio::test]
async fn each_job_is_retried_once() {
    let s = Session::fresh().await;
    let store = Arc::new(s.fixture.store().await) as Arc<dyn Store>;
    s.enqueue(30, "'k', queue => 'q'").await;
    let worker = worker_on(&store).await;
    let fail_all = async || {
        for job in held(&worker.claim(30).await) {
            let later = Disposition::Retry { delay: Duration::from_secs(3600), error: "it rains".to_owned() };
            worker.except(&job, later).await;
        }
    };
    fail_all().await;
    let failing = async {
        loop {
            fail_all().await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    // 20, a rest of a second in which all of them fail again, and 10.
    let touched = tokio::select! {
        touched = s.call("retry_jobs(state => 'retryable', per_second => 20, most => 90)") => touched,
        () = failing => unreachable!(),
    };
    assert_eq!(touched, (30, 30));
}

/// A dry run is one transaction, however many pages it reads.
#[tokio::test]
async fn a_page_leaves_no_cursor_open() {
    let s = Session::fresh().await;
    s.enqueue(1_200, "'k'").await;
    s.run("BEGIN; SELECT * FROM windlass.list_jobs('available', NULL, NULL, NULL, 10)").await;
    assert_eq!(s.call("cancel_jobs(kind => 'k', dry_run => true)").await, (1_200, 1_200));
    let open = "SELECT string_agg(name, ', ') FROM pg_cursors WHERE name <> ''"; // that is of this very query
    assert_eq!(s.value::<Option<String>>(open).await, None);
}

/// That ids are remembered costs the same for each job, however many there are: less than the listing. As many looks through all of them as there are
/// pages took 6 times as long at 100,000.
#[tokio::test]
async fn many_jobs_are_remembered_as_quickly() {
    let s = Session::fresh().await;
    s.run("SELECT windlass.lane_of('q', 0)").await;
    s.run(
        "INSERT INTO windlass.waiting (id, available_at, lane_id, max_attempts, state, kind, args)
         SELECT nextval('windlass.job_id_seq'), now() + interval '1 day', l.id, 20, 'retryable', 'k', '{}'
         FROM windlass.lane l, generate_series(1, 100000)",
    )
    .await;
    let calls = ["cancel_jobs(", "edit_jobs('{\"max_attempts\": 9}', "];
    let mut times = [Duration::MAX; 2];
    // Once, unless the machine is busy: the shortest of many.
    for _ in 0..20 {
        for (time, call) in times.iter_mut().zip(calls) {
            let began = Instant::now();
            let touched = s.call(&format!("{call}state => 'retryable', dry_run => true)")).await;
            assert_eq!(touched, (100_000, 100_000));
            *time = began.elapsed().min(*time);
        }
        if times[1] < times[0] * 3 {
            break;
        }
    }
    assert!(times[1] < times[0] * 3, "listed in {:?}, remembered, too, in {:?}", times[0], times[1]);
}

/// Who has the locks of some lanes gives them back when another is not soon to be had, before PostgreSQL ends somebody who waits for
/// both. The call goes on then, job by job.
#[tokio::test]
async fn a_call_that_waits_for_a_lane_keeps_no_other() {
    let s = Session::fresh().await;
    for queue in ["a", "b"] {
        s.enqueue(2, &format!("'k', queue => '{queue}'")).await;
    }
    let (gate, other, caller) = (s.fixture.sql().await, s.fixture.sql().await, s.fixture.sql().await);
    gate.batch_execute(&format!("BEGIN; {}", s.lock("b").await)).await.unwrap();
    let text = s.fixture.text("CALL windlass.cancel_jobs(kind => 'k')");
    let call = tokio::spawn(async move { caller.query_one(&text, &[]).await.expect("goes on") });
    s.until_waited_for("b").await; // and has that of a
    other.batch_execute(&s.lock("a").await).await.expect("the call gave way");
    gate.batch_execute("COMMIT").await.unwrap();
    let row = call.await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (4, 4));
    assert_eq!(s.value::<i64>("SELECT sum(count)::bigint FROM windlass.audit").await, 4);
}

/// The audit log says what was done, and how it ended.
#[tokio::test]
async fn what_was_done_before_an_error_is_noted() {
    let s = Session::fresh().await;
    s.enqueue(600, "'k', queue => 'a'").await;
    s.enqueue(3, "'k', queue => 'b'").await;
    let holder = s.fixture.sql().await;
    holder.batch_execute(&format!("BEGIN; {}", s.lock("b").await)).await.unwrap();
    // The page that ends with it is begun anew job by job: all of the other lane are done.
    s.run("SET lock_timeout = '100ms'").await;
    let cancel = s.fixture.text("CALL windlass.cancel_jobs(kind => 'k')");
    let error = s.client.batch_execute(&cancel).await.expect_err("the lane is locked");
    let error = error.as_db_error().expect("the server's");
    assert_eq!(error.code().code(), "55P03");
    assert!(error.message().starts_with("3 of 603 jobs could not be had: transactions"), "{error}");
    assert_eq!(error.hint(), Some("Of 603 jobs that were selected 600 are done, and stay so."));
    s.run("RESET lock_timeout; SET statement_timeout = '200ms'").await;
    let (code, _) = s.refusal("CALL windlass.cancel_jobs(kind => 'k', queue => 'b')").await;
    assert_eq!(code.code(), "57014");
    // While it rests, too.
    s.run("SET statement_timeout = '500ms'").await;
    let (code, _) =
        s.refusal("CALL windlass.delete_jobs(state => 'cancelled', queue => 'a', per_second => 1)").await;
    assert_eq!(code.code(), "57014");
    s.run("RESET statement_timeout").await;
    holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(s.call("cancel_jobs(kind => 'k', state => 'available')").await, (3, 3));
    let noted =
        "SELECT string_agg(concat_ws(' ', action, count, outcome), ', ' ORDER BY id) FROM windlass.audit";
    assert_eq!(
        s.value::<String>(noted).await,
        "jobs.cancel 600 55P03, jobs.cancel 0 57014, jobs.delete 1 57014, jobs.cancel 3 done"
    );
}

/// Jobs that somebody has are passed over, however many they are and wherever they are listed; all of them together are waited for as long as the session says.
#[tokio::test]
async fn jobs_that_somebody_has_end_no_call() {
    let s = Session::fresh().await;
    for (queue, count) in [("a", 300), ("b", 700), ("c", 300)] {
        s.enqueue(count, &format!("'k', queue => '{queue}'")).await;
    }
    let holder = s.fixture.sql().await;
    holder.batch_execute(&format!("BEGIN; {}", s.lock("b").await)).await.unwrap();
    s.run("SET lock_timeout = '500ms'").await;
    let (code, text) = s.refusal("CALL windlass.edit_jobs('{\"max_attempts\": 7}', kind => 'k')").await;
    assert_eq!(code.code(), "55P03", "{text}");
    assert!(text.starts_with("700 of 1300 jobs could not be had: transactions"), "{text}");
    let edited = "SELECT string_agg(DISTINCT queue || max_attempts, ' ') FROM windlass.jobs";
    assert_eq!(s.value::<String>(edited).await, "a7 b20 c7");
    assert_eq!(s.value::<String>("SELECT count || ' ' || outcome FROM windlass.audit").await, "600 55P03");
    holder.batch_execute("COMMIT").await.unwrap();
    // A log that is not in order is nobody's lock.
    s.run("UPDATE windlass.home SET system = 1").await;
    let told = s.refused("cancel_jobs(kind => 'k')").await;
    assert!(told.contains("moved here from another cluster"), "{told}");
}

/// Thousands of them take no longer than some: once the wait is over they are tried many at a time, and what is free behind them is done.
#[tokio::test]
async fn many_jobs_that_somebody_has_are_passed_over_together() {
    let s = Session::fresh().await;
    for (queue, count) in [("a", 200), ("b", 3_000), ("c", 200)] {
        s.enqueue(count, &format!("'k', queue => '{queue}'")).await;
    }
    let holder = s.fixture.sql().await;
    holder.batch_execute(&format!("BEGIN; {}", s.lock("b").await)).await.unwrap();
    s.run("SET lock_timeout = '200ms'").await;
    let cancel = s.fixture.text("CALL windlass.cancel_jobs(kind => 'k')");
    let began = Instant::now();
    let error = s.client.batch_execute(&cancel).await.expect_err("a lane is locked");
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed()); // one by one it took 35 s
    let error = error.as_db_error().expect("the server's");
    assert!(error.message().starts_with("3000 of 3400 jobs could not be had: transactions"), "{error}");
    assert_eq!(error.hint(), Some("Of 3400 jobs that were selected 400 are done, and stay so."));
    assert_eq!(error.detail(), None);
    holder.batch_execute("COMMIT").await.unwrap();
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

/// A time that nobody will see, with microseconds that no double has, is a place on a page like any other.
#[tokio::test]
async fn jobs_that_are_put_off_for_good_are_all_found() {
    let s = Session::fresh().await;
    s.enqueue(3, "'k', scheduled_at => '2999-12-31 23:59:59.999999+00'").await;
    s.enqueue(3, "'k', scheduled_at => '2999-12-31 23:59:59.000001+00'").await;
    let (mut after, mut found) = ("NULL".to_owned(), 0);
    for _ in 0..10 {
        let page = format!(
            "SELECT count((p.job).id), max(p.next)::text FROM windlass.list_jobs('scheduled', NULL, NULL, {after}, 1) AS p"
        );
        let page = s.row(&page).await;
        found += page.get::<_, i64>(0);
        let Some(next) = page.get::<_, Option<String>>(1) else { break };
        after = format!("'{next}'");
    }
    assert_eq!(found, 6);
}

/// Whether it is a dry run is said, or left out.
#[tokio::test]
async fn nobody_knows_whether_null_is_a_dry_run() {
    let s = Session::fresh().await;
    s.enqueue(3, "'k'").await;
    for call in ["cancel_jobs(", "retry_jobs(", "delete_jobs(", "edit_jobs('{\"priority\": 5}', "] {
        let (code, says) = s.refusal(&format!("CALL windlass.{call}kind => 'k', dry_run => NULL)")).await;
        assert_eq!((code.code(), &*says), ("WL003", "dry_run must be true or false, got NULL"), "{call}");
    }
    assert_eq!(
        s.value::<i64>("SELECT count(*) FROM windlass.jobs WHERE state = 'available' AND priority = 0").await,
        3
    );
}

/// Encrypted args are not edited, and a dry run says so.
#[tokio::test]
async fn a_dry_run_counts_what_an_edit_would_do() {
    let s = Session::fresh().await;
    s.enqueue(3, "'k'").await;
    // Escaped, because the schema has another name here.
    s.enqueue(2, r#"'k', '{"\u0077indlass.enc": {}}'"#).await;
    for dry_run in [true, false] {
        assert_eq!(
            s.call(&format!("edit_jobs('{{\"args\": 1}}', kind => 'k', dry_run => {dry_run})")).await,
            (5, 3)
        );
        assert_eq!(
            s.call(&format!("edit_jobs('{{\"priority\": 1}}', kind => 'k', dry_run => {dry_run})")).await,
            (5, 5)
        );
    }
}
