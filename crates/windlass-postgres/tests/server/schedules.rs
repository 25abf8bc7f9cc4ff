//! Schedules where they are rows: declared by SQL, on older schemas, and at what cost.

use crate::cluster::Fixture;
use crate::{cluster::WITHOUT_LIMITS, session::Session};
use std::sync::Arc;
use tokio_postgres::error::SqlState;
use windlass_conformance::steps::{enqueue, job, worker_on};
use windlass_core::{
    ErrorKind, JobStore, Missed, Overlap, Schedule, ScheduleFilter, ScheduleStep, ScheduleStore, Store,
};
use windlass_postgres::{Access, PostgresStore};

/// How many schedules there are: 10^6; set less for a quick look.
fn deep() -> i64 {
    std::env::var("WINDLASS_TEST_DEEP").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000)
}

/// What SQL declares is what a program would have declared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_declares_schedules() {
    let session = Session::fresh().await;
    let store = session.fixture.store().await;
    let whole = "SELECT windlass.set_schedule('s', '30 6 * * MON-FRI', 'report', '{\"a\": [1.5, \"ä\"]}', zone => 'Europe/Berlin', queue => 'q',
        starts_at => '2026-01-01 00:00+00', ends_at => '2036-01-01 00:00+00', jitter => '5 minutes', overlap => 'queue_one', missed => '7',
        priority => -3, max_attempts => 2, key => 'acme', meta => '{\"who\": \"me\"}', tracked => true, timeout => '30 s', expiry => '1 hour',
        tags => '{x,y}', source => 'app', cost => 5)";
    assert_eq!(session.value::<String>(whole).await, "created");
    assert_eq!(session.value::<String>(whole).await, "unchanged");
    let schedule = store.schedules(&ScheduleFilter::default()).await.unwrap().remove(0).schedule().unwrap();
    assert_eq!((schedule.name(), schedule.source(), schedule.cron()), ("s", "app", "30 6 * * MON-FRI"));
    assert_eq!((schedule.overlap(), schedule.missed()), (Overlap::QueueOne, Missed::All(7)));
    assert_eq!(schedule.jitter().as_secs(), 300);
    let job = schedule.job();
    assert_eq!((job.kind(), job.queue(), job.priority(), job.max_attempts()), ("report", "q", -3, 2));
    let attributes = job.attributes().unwrap();
    assert_eq!((attributes.key.as_deref(), attributes.tracked), (Some("acme"), true));
    assert_eq!(
        (&*attributes.tags, attributes.expires_after.unwrap().as_secs()),
        (&["x".to_owned(), "y".to_owned()][..], 3_600)
    );
    assert_eq!(attributes.cost, Some(5));
    // A program that declares the same says it in other bytes.
    let put = store.put_schedules(&[schedule], None).await.unwrap();
    assert_eq!(put.puts, [windlass_core::SchedulePut::Unchanged]);
    for policy in [
        "{}",
        r#"{"base_ms": 2000}"#,
        r#"{"backoff": "linear", "jitter": 0}"#,
        r#"{"backoff": "fixed", "base_ms": 7000}"#,
        r#"{"backoff": "fixed"}"#,
        r#"{"backoff": "fixed", "max_ms": 9000, "factor": 3.5}"#,
    ] {
        let set = format!("SELECT windlass.set_schedule('p', '@daily', 'k', retry_policy => '{policy}')");
        assert_ne!(session.value::<String>(&set).await, "unchanged", "{policy}");
        let filter = ScheduleFilter { name: Some("p".to_owned()), ..ScheduleFilter::default() };
        let schedule = store.schedules(&filter).await.unwrap().remove(0).schedule().unwrap();
        let put = store.put_schedules(&[schedule], None).await.unwrap();
        assert_eq!(put.puts, [windlass_core::SchedulePut::Unchanged], "{policy}");
        assert_eq!(session.value::<String>(&set).await, "unchanged", "{policy}");
    }
    session.run("SELECT windlass.remove_schedule('p')").await;

    assert_eq!(
        session.value::<String>("SELECT windlass.set_schedule('t', 'every 90s', 'k')").await,
        "created"
    );
    let shown = "SELECT concat_ws('|', name, source, cron, zone, kind, queue, args, paused, error) FROM windlass.schedules WHERE name = 't'";
    assert_eq!(session.value::<String>(shown).await, "t||every 90s|UTC|k|default|{}|f");
    session.run("SELECT windlass.run_schedule('t'); SELECT windlass.cancel(last_job) FROM windlass.schedules WHERE name = 't'").await;
    let ended =
        "SELECT string_agg(concat_ws(' ', name, last_job_state), ', ' ORDER BY name) FROM windlass.schedules";
    assert_eq!(session.value::<String>(ended).await, "s, t cancelled");
    session.run("BEGIN; SELECT windlass.remove_schedule('t'); ROLLBACK").await;
    for (verb, there) in
        [("pause", "true"), ("resume", "true"), ("remove", "true"), ("remove", "false"), ("pause", "false")]
    {
        assert_eq!(
            session.value::<String>(&format!("SELECT windlass.{verb}_schedule('t')::text")).await,
            there,
            "{verb}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_refuses_what_cannot_work() {
    let session = Session::fresh().await;
    let set = |more: &str| format!("SELECT windlass.set_schedule({more})");
    let meta = |size: usize| {
        format!("'s', '@daily', 'k', meta => ('{{\"a\": \"' || repeat('x', {size}) || '\"}}')::jsonb")
    };
    let (big, large) = (meta(8_120), meta(8_000));
    for (more, code, says) in [
        ("'a b', '@daily', 'k'", "WL002", "without spaces"),
        ("'..', '@daily', 'k'", "WL002", "invalid name of a schedule '..'; browsers"),
        ("'', '@daily', 'k'", "WL002", "name and source"),
        ("NULL, '@daily', 'k'", "WL002", "name and source"),
        ("'s', NULL, 'k'", "WL003", "cron and zone"),
        ("'s', repeat('*', 201), 'k'", "WL003", "at most 200 bytes"),
        ("'s', '@daily', 'a b'", "WL002", "invalid kind"),
        ("'s', '@daily', 'k', NULL", "WL004", "NULL"),
        ("'s', '@daily', 'k', queue => 'a b'", "WL002", "invalid queue name"),
        ("'s', '@daily', 'k', priority => 101", "WL003", "priority must be"),
        ("'s', '@daily', 'k', max_attempts => 0", "WL003", "max_attempts"),
        ("'s', '@daily', 'k', overlap => 'maybe'", "WL003", "allow, skip or queue_one"),
        ("'s', '@daily', 'k', missed => '0'", "WL003", "none, last or a number"),
        ("'s', '@daily', 'k', missed => '1001'", "WL003", "none, last or a number"),
        ("'s', '@daily', 'k', jitter => '25 hours'", "WL003", "jitter must be 0 to a day"),
        ("'s', '@daily', 'k', expiry => '0'", "WL003", "expiry must be"),
        (
            "'s', '@daily', 'k', starts_at => '2026-01-01', ends_at => '2025-01-01'",
            "WL003",
            "must end after it starts",
        ),
        ("'s', '@daily', 'k', starts_at => '12000-01-01'", "WL003", "years 1970 to 9999"),
        ("'s', '0 0 L,LW * *', 'k'", "WL003", "L and LW do not go together"),
        ("'s', '@daily', 'k', ends_at => 'infinity'", "WL003", "must end after it starts"),
        ("'s', '@daily', 'k', source => 'a b'", "WL002", "name and source"),
        ("'s', '@daily', 'k', cost => 0", "WL003", "the cost of a job must be 1 to 1000000, got 0"),
        // Too large only with what each of its jobs gets: it would never run.
        (&*big, "WL004", "meta of schedule 's' is more than 8192 bytes with the name"),
    ] {
        let (state, message) = session.refusal(&set(more)).await;
        assert!(state.code() == code && message.contains(says), "{more}: {state:?} {message}");
    }
    assert_eq!(session.value::<String>("SELECT count(*)::text FROM windlass.schedule").await, "0");
    assert_eq!(session.value::<String>(&set(&large)).await, "created");
    let schedule =
        session.fixture.store().await.schedules(&ScheduleFilter::default()).await.unwrap().remove(0);
    let schedules = [schedule.schedule().unwrap()];
    windlass_core::Limits::default().check_schedules(&schedules).expect("what SQL lets pass, programs do");
}

/// A run by hand is what a program's would be: beside the ticks, paused or not, and whoever decided meanwhile decides anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_runs_a_schedule_now() {
    let session = Session::fresh().await;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    session
        .run(
            "SELECT windlass.set_schedule('s', '@daily', 'report', '[1.50]', queue => 'q', priority => -3, max_attempts => 2,
                meta => '{\"who\": \"me\"}', expiry => '1 hour', tags => '{x}');
             SELECT windlass.set_schedule('plain', '@daily', 'k')",
        )
        .await;
    let before = store.due_schedules(10).await.unwrap().due;
    let mut client = session.fixture.sql().await;
    let run = session.fixture.text("SELECT windlass.run_schedule($1)");
    let undone = client.transaction().await.unwrap();
    let id: Option<i64> = undone.query_one(&run, &[&"s"]).await.unwrap().get(0);
    assert!(id.is_some());
    undone.rollback().await.unwrap();
    session.run("SELECT windlass.pause_schedule('plain')").await;
    let both = client.transaction().await.unwrap();
    let mut ids: Vec<i64> = Vec::new();
    for name in ["s", "s", "plain"] {
        ids.push(both.query_one(&run, &[&name]).await.unwrap().get(0));
    }
    both.commit().await.unwrap();
    let unknown: Option<i64> = client.query_one(&run, &[&"t"]).await.unwrap().get(0);
    assert_eq!(unknown, None, "there is no such schedule");

    let records = store.schedules(&ScheduleFilter::default()).await.unwrap();
    assert_eq!(records[1].last_job.map(|job| job.0), Some(ids[1]));
    assert_eq!((records[0].paused, records[0].last_job.map(|job| job.0)), (true, Some(ids[2])));
    for (record, before) in records.iter().rev().zip(&before) {
        assert_eq!(record.name, before.name);
        assert_ne!(record.version, before.version, "a step that was decided before is refused");
        assert_eq!((record.decided, record.last_tick), (before.decided, None), "no tick is decided by it");
    }
    let expected = records[1].schedule().unwrap().job_at(None);
    for id in &ids[..2] {
        let job = store.job(windlass_core::JobId(*id)).await.unwrap().expect("is there");
        assert_eq!((&*job.kind, &*job.queue, job.priority, job.max_attempts), ("report", "q", -3, 2));
        let meta =
            |args: &windlass_core::Args| serde_json::from_str::<serde_json::Value>(args.as_str()).unwrap();
        let wanted = expected.attributes().unwrap().meta.as_ref().unwrap();
        assert_eq!(meta(job.meta.as_ref().unwrap()), meta(wanted));
        assert_eq!((job.args.as_str(), &*job.tags), ("[1.50]", &["x".to_owned()][..]));
        let expires = job.expires_at.expect("expires").duration_since(job.enqueued_at).as_secs();
        assert!((3_599..=3_601).contains(&expires), "{expires}");
    }
    let steps: Vec<_> = before.iter().map(ScheduleStep::of).collect();
    assert_eq!(store.advance_schedules(&steps).await.unwrap(), [None, None], "decided before the runs");
    // One that an older program set.
    let big = "SELECT windlass.set_schedule('big', '@daily', 'k'); UPDATE windlass.schedule SET definition = (definition::jsonb
        || jsonb_build_object('attributes', jsonb_build_object('meta', jsonb_build_object('a', repeat('x', 8180)))))::json WHERE name = 'big'";
    session.run(big).await;
    let (state, message) = session.refusal("SELECT windlass.run_schedule('big')").await;
    assert!(state.code() == "WL004" && message.contains("'big' is more than 8192"), "{state:?} {message}");
}

/// Who has a schedule locked, in a transaction that stays open, holds up no other; and that one is decided afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_that_is_locked_holds_up_no_other() {
    let session = Session::fresh().await;
    let store = session.fixture.store().await;
    session
        .run("SELECT windlass.set_schedule('a', '@daily', 'k'); SELECT windlass.set_schedule('b', '@daily', 'k')")
        .await;
    let due = store.due_schedules(10).await.unwrap().due;
    let steps: Vec<_> = due
        .iter()
        .map(|record| {
            let mut step = ScheduleStep::of(record);
            step.jobs = vec![job()];
            step
        })
        .collect();
    let advance = async || {
        // A call that waits for the lock is ended by its deadline.
        let taken = store.advance_schedules(&steps).await.expect("waits for nobody");
        taken.into_iter().map(|ids| ids.map(|ids| ids.len())).collect::<Vec<_>>()
    };
    session.run("BEGIN; SELECT windlass.run_schedule('a')").await;
    assert_eq!(advance().await, [None, Some(1)]);
    session.run("ROLLBACK").await;
    assert_eq!(advance().await, [Some(1), None]);
}

/// On a schema of the version before everything else works, and schedules say what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_schema_is_worked_on_and_migrated() {
    let session = Session::fresh().await;
    session
        .run(
            "DROP VIEW windlass.schedules; DROP TABLE windlass.schedule CASCADE;
             DROP FUNCTION windlass.put_schedules, windlass.due_schedules, windlass.advance_schedules, windlass.remove_schedules,
                windlass.pause_schedules, windlass.set_schedule",
        )
        .await;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    let schedule = Schedule::new("s", "@daily", job());
    let asked = store.put_schedules(std::slice::from_ref(&schedule), None).await.map(drop).unwrap_err();
    for error in [
        asked,
        store.due_schedules(1).await.map(drop).unwrap_err(),
        store.schedules(&ScheduleFilter::default()).await.map(drop).unwrap_err(),
        store.remove_schedules(&["s".into()]).await.map(drop).unwrap_err(),
        store.pause_schedules(&["s".into()], true).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::SchemaTooOld, "{error}");
    }
    enqueue(&store, job()).await;
    assert_eq!(worker_on(&store).await.drain(10).await.len(), 1);
    session.run(WITHOUT_LIMITS).await;
    session.run("DELETE FROM windlass.migration WHERE version > 10").await;
    store.migrate().await.expect("migrates");
    store.put_schedules(&[schedule], None).await.expect("knows schedules now");
}

/// Who works declares schedules and fires them; who operates looks after them; who produces does neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_have_what_they_need() {
    let session = Session::of(Fixture::shared().await).await;
    let as_role = async |name: &str, access: &[Access]| {
        let url = session.fixture.role(name, access).await;
        PostgresStore::connect(&url, session.fixture.options.clone()).await.expect("connects")
    };
    let schedule = [Schedule::new("s", "@daily", job())];
    let worker = as_role("works", &[Access::Worker]).await;
    worker.put_schedules(&schedule, Some("app")).await.expect("a worker declares");
    let due = worker.due_schedules(10).await.expect("and looks");
    let mut step = ScheduleStep::of(&due.due[0]);
    step.jobs = vec![job()];
    worker.advance_schedules(&[step]).await.expect("and fires");
    // Whether a schedule's last job has ended is what some overlaps go by.
    let last = worker.enqueue(&[job()]).await.expect("enqueues")[0];
    assert!(worker.ended(&[last]).await.expect("and asks").jobs.is_empty());
    let operator = as_role("operates", &[Access::Operator]).await;
    assert_eq!(operator.schedules(&ScheduleFilter::default()).await.expect("an operator lists").len(), 1);
    operator.pause_schedules(&["s".into()], true).await.expect("and pauses");
    operator.remove_schedules(&["s".into()]).await.expect("and removes");
    operator.put_schedules(&schedule, None).await.expect("and declares");
    let run = session.fixture.text("SELECT windlass.run_schedule('s')");
    let by_sql = async |name: &str| {
        let role = format!("//{}_{name}@", session.fixture.schema);
        crate::cluster::connect(&crate::cluster::url().replace("//postgres@", &role))
            .await
            .query_one(&run, &[])
            .await
    };
    by_sql("operates").await.expect("and runs by hand");
    let viewer = as_role("views", &[Access::Viewer]).await;
    assert_eq!(viewer.schedules(&ScheduleFilter::default()).await.expect("a viewer lists").len(), 1);
    let look = session.fixture.text("SELECT last_job_state FROM windlass.schedules");
    let views = crate::cluster::url().replace("//postgres@", &format!("//{}_views@", session.fixture.schema));
    let seen = crate::cluster::connect(&views).await.query_one(&look, &[]).await.expect("also by SQL");
    assert_eq!(seen.get::<_, Option<&str>>(0), Some("available"));
    let producer = as_role("produces", &[Access::Producer]).await;
    for name in ["views", "produces"] {
        let refused = by_sql(name).await.expect_err("may not run one");
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{refused}");
    }
    for error in [
        viewer.remove_schedules(&["s".into()]).await.map(drop).unwrap_err(),
        producer.put_schedules(&schedule, None).await.map(drop).unwrap_err(),
        producer.due_schedules(1).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
}

/// What each call touches is bounded by what it does, however many schedules there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_cost_what_they_do() {
    let session = Session::fresh().await;
    let deep = deep();
    session
        .run(&format!(
            "INSERT INTO windlass.schedule (name, source, definition, due_at)
                SELECT 's' || g, CASE WHEN g % 100 = 0 THEN 'app' ELSE '' END, '{{\"cron\":\"@daily\",\"kind\":\"k\",\"args\":{{}}}}', now() + g * interval '1 s'
                FROM generate_series(1, {deep}) AS g;
             SELECT windlass.current_segment();
             ANALYZE windlass.schedule"
        ))
        .await;
    let middle = deep / 2;
    let one = format!("ARRAY['s{middle}']");
    let advance = format!(
        "SELECT * FROM windlass.advance_schedules({one}, ARRAY[(SELECT version FROM windlass.schedule WHERE name = 's{middle}')],
            ARRAY[now()], ARRAY[now()], ARRAY[now()], ARRAY[now()], ARRAY[NULL]::timestamptz[], ARRAY[NULL]::text[], ARRAY[1], ARRAY['q'], ARRAY[0],
            ARRAY['k'], ARRAY['{{}}']::json[], ARRAY[20]::smallint[], ARRAY[''], ARRAY[NULL]::bigint[])"
    );
    let page = "SELECT name, definition FROM windlass.schedule WHERE name > 's5' COLLATE \"C\"";
    for (sql, most) in [
        ("SELECT * FROM windlass.due_schedules(500, NULL)".to_owned(), 60),
        (advance, 300),
        (
            format!(
                "SELECT windlass.put_schedules({one}, ARRAY[''], ARRAY['{{\"cron\":\"@daily\",\"kind\":\"k\",\"args\":{{}}}}'], NULL)"
            ),
            100,
        ),
        (
            format!(
                "SELECT windlass.put_schedules({one}, ARRAY['x'], ARRAY['{{\"cron\":\"@hourly\",\"kind\":\"k\",\"args\":{{}}}}'], 'y')"
            ),
            200,
        ),
        (format!("SELECT windlass.pause_schedules({one}, true)"), 150),
        (format!("SELECT windlass.run_schedule('s{middle}')"), 300),
        (format!("SELECT windlass.remove_schedules({one})"), 150),
        (format!("{page} ORDER BY name LIMIT 100"), 150),
        (format!("{page} AND source = 'app' COLLATE \"C\" AND source <> '' ORDER BY name LIMIT 100"), 300),
    ] {
        let pages = session.fixture.pages(&session.client, &sql).await;
        assert!(pages <= most, "{pages} pages, {most} are enough: {sql}");
    }
}
