//! What somebody does in a transaction that stays open (or is prepared, and forgotten) costs the jobs that it touches, and no worker, no rescue and no housekeeping.

use crate::{cluster::Fixture, session::Session};
use std::{sync::Arc, time::Duration};
use tokio_postgres::Client;
use windlass_conformance::steps::{DEADLINE, LEASE, QUEUE, eventually, job, jobs, worker_on};
use windlass_core::{
    CancelReply, ClaimRequest, ErrorKind, JobStore, KeyLimit, KeyLimitsChange, OnConflict, QueueDemand,
    QueueLimits, Schedule, ScheduleStore, Settings, Store, Unique,
};

/// A session whose calls fail where they wait for somebody's lock. As long as that takes on a machine that is busy: whoever waits, waits for ever.
async fn impatient(fixture: Fixture) -> Session {
    let session = Session::of(fixture).await;
    session.run("SET lock_timeout = '5s'").await;
    session
}

/// Begins a transaction that does this and stays open.
async fn open(fixture: &Fixture, call: &str) -> Client {
    let client = fixture.sql().await;
    let sql = fixture.text(&format!("BEGIN; SELECT {call}"));
    client.batch_execute(&sql).await.expect(call);
    client
}

/// How many jobs a claim of the queue gets.
async fn claimed(session: &Session, worker: i32, queue: &str, most: u32) -> i64 {
    let claim = format!(
        "SELECT count(*) FROM windlass.claim({worker}, '{{{queue}}}', '{{{most}}}') WHERE id IS NOT NULL"
    );
    session.value(&claim).await
}

/// Who asks again in milliseconds, as after a claim that met another one, claims a hundred times a second for as long as the transaction is open.
#[tokio::test]
async fn a_claim_tells_other_claims_from_who_has_the_lane_for_long() {
    for is_keyed in [false, true] {
        let s = impatient(Fixture::fresh().await).await;
        let store: Arc<dyn Store> = Arc::new(s.fixture.store().await);
        let mut three = jobs(3);
        if is_keyed {
            store.limit_keys(QUEUE, &KeyLimitsChange::Default(KeyLimit::serial())).await.unwrap();
            three = three.into_iter().enumerate().map(|(n, job)| job.with_key(n.to_string())).collect();
        }
        let ids = store.enqueue(&three).await.unwrap();
        let worker = worker_on(&store).await;
        assert_eq!(worker.claim(1).await.len(), 1);
        let request = ClaimRequest { worker: worker.id, queues: vec![QueueDemand::new(QUEUE, 10)] };
        let edit = format!("windlass.edit({}, priority => 5)", ids[2]);
        let limit = format!("windlass.limit_keys('{QUEUE}', concurrency => 3)");
        for call in [Some(edit), is_keyed.then_some(limit)].into_iter().flatten() {
            let editor = open(&s.fixture, &call).await;
            // From a time to come it is of before the clock was set back.
            for (since, blocked) in [("1 minute", true), ("-1 minute", true), ("0", false)] {
                eventually(&format!("{call} {since}"), || async {
                    let at = format!("clock_timestamp() - interval '{since}'");
                    s.run(&format!("UPDATE windlass.claim SET claimed_at = {at}")).await;
                    let claimed = store.claim(&request).await.unwrap();
                    assert_eq!((claimed.claims.len(), claimed.contended), (0, true), "{call} {since}");
                    // On a busy machine it takes a while to ask, so that what was just claimed may have been for long.
                    assert!(blocked == claimed.blocked || !blocked, "{call} {since}");
                    (blocked == claimed.blocked).then_some(())
                })
                .await;
            }
            editor.batch_execute("ROLLBACK").await.unwrap();
        }
        let claimed = store.claim(&request).await.unwrap();
        let jobs: usize = claimed.claims.iter().map(|claim| claim.jobs.len()).sum();
        assert_eq!((jobs, claimed.blocked), (2, false));
    }
}

/// In the worker's own row the request kept its heartbeats waiting until its lease was over, and then every rescue, of any worker.
#[tokio::test]
async fn a_request_to_drain_keeps_no_heartbeat_and_no_rescue_waiting() {
    let s = impatient(Fixture::fresh().await).await;
    let (asked, silent) = (s.register("'{q}'").await, s.register("'{q}'").await);
    s.run("SELECT windlass.enqueue('k', queue => 'q')").await;
    assert_eq!(claimed(&s, silent, "q", 1).await, 1);
    let first = open(&s.fixture, &format!("windlass.drain_worker({asked})")).await;
    let second = open(&s.fixture, &format!("windlass.drain_worker({silent})")).await;
    s.run(&format!("SELECT windlass.heartbeat({asked}, NULL, NULL, NULL)")).await;
    let past = format!(
        "UPDATE windlass.worker SET heartbeat_at = heartbeat_at - 2 * lease WHERE id = {silent};
         UPDATE windlass.worker SET in_touch_since = in_touch_since - interval '{} s' WHERE id = {asked}",
        2.0 * LEASE.as_secs_f64()
    );
    s.run(&past).await;
    let rescue = format!("SELECT rescued FROM windlass.rescue({asked})");
    assert_eq!(s.value::<Option<i64>>(&rescue).await, Some(1));
    let drains = format!("SELECT windlass.is_draining({asked})");
    assert!(!s.value::<bool>(&drains).await);
    for client in [first, second] {
        client.batch_execute("COMMIT").await.unwrap();
    }
    assert!(s.value::<bool>(&drains).await);
    // Of a worker that ended it goes with housekeeping.
    assert_eq!(s.value::<i64>("SELECT windlass.forget_requests(10)").await, 10);
    assert_eq!(s.value::<i64>("SELECT windlass.forget_requests(10)").await, 0);
    let left = "SELECT array_agg(worker_id) FROM windlass.cancel_request";
    assert_eq!(s.value::<Vec<i32>>(left).await, [asked]);
}

/// A worker registers its queues, too. It did not start while somebody limited one that was new.
#[tokio::test]
async fn a_worker_starts_beside_who_makes_one_of_its_queues() {
    let s = impatient(Fixture::fresh().await).await;
    s.run("SELECT windlass.enqueue('k', queue => 'paused')").await;
    let first = open(&s.fixture, "windlass.limit_queue('limited', concurrency => 3)").await;
    let second = open(&s.fixture, "windlass.pause('paused')").await;
    let worker = s.register("'{limited,paused,q}'").await;
    assert_eq!(claimed(&s, worker, "paused", 1).await, 1);
    let names = "SELECT array_agg(name ORDER BY name) FROM windlass.queue";
    assert_eq!(s.value::<Vec<String>>(names).await, ["q"]);
    for client in [first, second] {
        client.batch_execute("COMMIT").await.unwrap();
    }
    assert_eq!(s.value::<Vec<String>>(names).await, ["limited", "paused", "q"]);
}

/// One lock for all who declare something new or otherwise kept every instance that started waiting for a transaction that had to do with another schedule.
#[tokio::test]
async fn who_declares_a_schedule_keeps_waiting_no_other() {
    let s = impatient(Fixture::fresh().await).await;
    s.run("SELECT windlass.set_schedule(name, '@daily', 'k') FROM unnest(ARRAY['a', 'd', 'e']) AS name")
        .await;
    let first = open(&s.fixture, "windlass.set_schedule('d', '@hourly', 'k')").await;
    let second = open(&s.fixture, "windlass.set_schedule('new', '@hourly', 'k', source => 'app')").await;
    for (name, put) in
        [("a", "changed"), ("c", "created"), ("e", "changed"), ("a", "unchanged"), ("d", "unchanged")]
    {
        let cron = if name == "d" { "@daily" } else { "@hourly" };
        let set = format!("SELECT windlass.set_schedule('{name}', '{cron}', 'k')");
        assert_eq!(s.value::<String>(&set).await, put, "{name}");
    }
    let prune =
        "SELECT puts FROM windlass.put_schedules('{x}', '{app}', ARRAY['{\"cron\": \"@daily\"}'], 'app')";
    assert_eq!(s.value::<Vec<String>>(prune).await, ["created"]);
    for client in [first, second] {
        client.batch_execute("COMMIT").await.unwrap();
    }
    let crons = "SELECT string_agg(name || ' ' || cron, ', ' ORDER BY name) FROM windlass.schedules";
    assert_eq!(
        s.value::<String>(crons).await,
        "a @hourly, c @hourly, d @hourly, e @hourly, new @hourly, x @daily"
    );
}

/// What is claimed stays so, and a dead job is nowhere in the log: neither is a reason to keep the lane from others.
#[tokio::test]
async fn who_touches_no_waiting_job_holds_no_lane() {
    let s = impatient(Fixture::fresh().await).await;
    let worker = s.register("'{q}'").await;
    let enqueue = "SELECT windlass.enqueue('k', queue => 'q', max_attempts => 1)";
    let running: i64 = s.value(enqueue).await;
    assert_eq!(claimed(&s, worker, "q", 1).await, 1);
    let dead: i64 = s.value(enqueue).await;
    let claim = format!(
        "SELECT head[1] || ', ' || head[2] || ', ' || head[3] FROM windlass.claim({worker}, '{{q}}', '{{1}}') LIMIT 1"
    );
    let place: String = s.value(&claim).await;
    let place: Vec<&str> = place.split(", ").collect();
    let settle = format!(
        r#"SELECT windlass.settle({worker}, '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', json_build_array(json_build_object(
            'lane', {}, 'seq', {}, 'token', {}, 'job', {dead}, 'disposition', 'discard', 'failed', true, 'text', 'no',
            'xid', (SELECT xid::text FROM windlass.job WHERE id = {dead}), 'position', (SELECT xid::text FROM windlass.job WHERE id = {dead}))))"#,
        place[0], place[1], place[2]
    );
    s.run(&settle).await;
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.dead WHERE state = 'discarded'").await, 1);
    for (call, reply) in [
        (format!("windlass.cancel({running})"), "running"),
        (format!("windlass.edit({running}, priority => 5)"), "running"),
        (format!("windlass.delete({running})"), "running"),
        (format!("windlass.retry({dead})"), "retried"),
    ] {
        s.run(enqueue).await;
        let client = open(&s.fixture, &format!("pg_catalog.set_config('test.reply', {call}, false)")).await;
        let said: String =
            client.query_one("SELECT current_setting('test.reply')", &[]).await.unwrap().get(0);
        assert_eq!(said, reply, "{call}");
        assert_eq!(claimed(&s, worker, "q", 1).await, 1, "{call}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
}

/// A request whose job came back is carried out with the job's lane locked, by the worker's heartbeat; one whose job completed is removed by it. Neither waits for a user.
#[tokio::test]
async fn requests_that_cannot_be_carried_out_yet_keep_no_heartbeat_waiting() {
    let s = impatient(Fixture::fresh().await).await;
    let worker = s.register("'{q}'").await;
    let enqueue = "SELECT windlass.enqueue('k', queue => 'q')";
    let (back, other): (i64, i64) = (s.value(enqueue).await, s.value(enqueue).await);
    // As if it had come back while the request was made.
    s.run(&format!(
        "INSERT INTO windlass.cancel_request SELECT {back}, id, 1, {worker} FROM windlass.lane WHERE queue = 'q'"
    ))
    .await;
    let editor = open(&s.fixture, &format!("windlass.edit({other}, priority => 5)")).await;
    let again = s.fixture.sql().await;
    let news = format!("SELECT count(*) FROM windlass.cancel_requests({worker})");
    assert_eq!(s.value::<i64>(&news).await, 0);
    editor.batch_execute("COMMIT").await.unwrap();
    let lock = format!("BEGIN; SELECT FROM windlass.cancel_request WHERE job_id = {back} FOR UPDATE");
    again.batch_execute(&s.fixture.text(&lock)).await.unwrap();
    assert_eq!(s.value::<i64>(&news).await, 0);
    again.batch_execute("COMMIT").await.unwrap();
    let state = format!("SELECT state FROM windlass.jobs WHERE id = {back}");
    assert_eq!(s.value::<String>(&state).await, "available");
    assert_eq!(s.value::<i64>(&news).await, 0);
    assert_eq!(s.value::<String>(&state).await, "cancelled");
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.cancel_request").await, 0);
}

/// Queues that nobody uses are removed, but for those that somebody is changing just now.
#[tokio::test]
async fn who_limits_a_queue_that_nobody_uses_keeps_no_housekeeping_waiting() {
    let s = impatient(Fixture::fresh().await).await;
    s.run("INSERT INTO windlass.queue (name, created_at) SELECT n, now() - interval '2 days' FROM unnest('{old,other}'::text[]) AS n").await;
    let limiting = open(&s.fixture, "windlass.limit_queue('old', concurrency => 1)").await;
    s.run("SELECT windlass.forget_lanes(10)").await;
    limiting.batch_execute("COMMIT").await.unwrap();
    let left = "SELECT string_agg(name, ' ' ORDER BY name) FROM windlass.queue";
    assert_eq!(s.value::<String>(left).await, "old");
}

/// The job that is to be cancelled came back, waits, and somebody changes it in a transaction that stays open.
#[tokio::test]
async fn a_request_whose_job_somebody_changes_keeps_no_heartbeat_waiting() {
    let s = impatient(Fixture::fresh().await).await;
    let worker = s.register("'{q}'").await;
    let later = "SELECT windlass.enqueue('k', queue => 'q', scheduled_at => now() + interval '1 day')";
    let (changed, other): (i64, i64) = (s.value(later).await, s.value(later).await);
    // As if they had come back while the requests were made.
    s.run(&format!(
        "INSERT INTO windlass.cancel_request SELECT j, id, 1, {worker} FROM windlass.lane, unnest(ARRAY[{changed}, {other}]) AS j WHERE queue = 'q'"
    ))
    .await;
    let editor = open(&s.fixture, &format!("windlass.edit({changed}, max_attempts => 5)")).await;
    let news = format!("SELECT count(*) FROM windlass.cancel_requests({worker})");
    assert_eq!(s.value::<i64>(&news).await, 0);
    let waiting = "SELECT array_agg(id) FROM windlass.waiting";
    assert_eq!(s.value::<Vec<i64>>(waiting).await, [changed], "the other is cancelled");
    editor.batch_execute("COMMIT").await.unwrap();
    assert_eq!(s.value::<i64>(&news).await, 0);
    assert_eq!(s.value::<Option<Vec<i64>>>(waiting).await, None);
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.cancel_request").await, 0);
}

/// Requests are looked at lane by lane: those of a lane that a user has hid all that came after.
#[tokio::test]
async fn a_request_of_a_lane_that_somebody_has_hides_none_of_another() {
    let s = impatient(Fixture::fresh().await).await;
    let worker = s.register("'{q}'").await;
    let mut ids = Vec::new();
    for priority in [0, 0, 5] {
        let enqueue = format!("SELECT windlass.enqueue('k', queue => 'q', priority => {priority})");
        ids.push(s.value::<i64>(&enqueue).await);
    }
    // As if two had come back while the requests were made.
    s.run(&format!(
        "INSERT INTO windlass.cancel_request SELECT j.id, l.id, 1, {worker} FROM (VALUES ({}, 0), ({}, 5)) AS j(id, priority)
         JOIN windlass.lane l ON l.queue = 'q' AND l.priority = j.priority",
        ids[1], ids[2]
    ))
    .await;
    let editor = open(&s.fixture, &format!("windlass.edit({}, priority => 9)", ids[0])).await;
    let news = format!("SELECT count(*) FROM windlass.cancel_requests({worker})");
    let states = "SELECT string_agg(state, ' ' ORDER BY id) FROM windlass.jobs";
    assert_eq!(s.value::<i64>(&news).await, 0);
    assert_eq!(s.value::<String>(states).await, "available available cancelled");
    editor.batch_execute("COMMIT").await.unwrap();
    assert_eq!(s.value::<i64>(&news).await, 0);
    assert_eq!(s.value::<String>(states).await, "available cancelled cancelled");
}

/// Each of them waited on a connection of its own: a few callers of one key had all that the process may have, and what had nothing to do with it stood still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_transaction_leaves_others_their_connections() {
    let mut fixture = Fixture::fresh().await;
    fixture.options.pool_size = 1;
    fixture.options.call_timeout = DEADLINE; // of those that wait until this test is over
    let store = Arc::new(fixture.store().await);
    let touched = store.enqueue(&jobs(2)).await.unwrap();
    let unique = || job().with_unique(Unique::by_key("u"));
    let replacing =
        || job().with_unique(Unique::by_key("u").on_conflict(OnConflict::Replace { max_wait: None }));
    let locker = fixture.sql().await;
    let took = format!(
        "SET windlass.wakeup = off; BEGIN; SELECT windlass.enqueue_once('once', 'noop', queue => 'q'); SELECT windlass.cancel({});
         SELECT windlass.enqueue_unique('noop', '{{}}', queue => 'q', unique_key => 'u'); PREPARE TRANSACTION '{}'",
        touched[0].0, fixture.name
    );
    locker.batch_execute(&fixture.text(&took)).await.unwrap();
    let calls = tokio::spawn({
        let (store, touched) = (Arc::clone(&store), touched.clone());
        async move {
            let one = [job()];
            let both = [job(), unique()];
            let (kept, replaced) = ([unique()], [replacing()]);
            tokio::join!(
                store.enqueue_once("once", &one),
                store.enqueue_unique(&kept),
                store.enqueue_unique(&replaced),
                store.enqueue_unique(&both),
                store.cancel(&touched[1..]),
                store.cancel(&touched),
            )
        }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let look = || async { (locker.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0).then_some(()) };
    eventually("one of them waits", look).await;
    let free = store.enqueue(&[job().with_queue("other")]).await;
    free.expect("a job of another queue has nothing to do with it");
    // And who has waited for long enough is told why.
    let mut impatient = fixture.options.clone();
    impatient.call_timeout = Duration::from_secs(3);
    let impatient = windlass_postgres::PostgresStore::connect(&fixture.url, impatient).await.unwrap();
    let refused = impatient.cancel(&touched[..1]).await.expect_err("it is locked");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(refused.to_string().contains("pg_prepared_xacts"), "{refused}");
    locker.batch_execute(&format!("COMMIT PREPARED '{}'", fixture.name)).await.unwrap();
    let (once, kept, replaced, both, one, two) = calls.await.unwrap();
    assert!(once.unwrap().repeated);
    for stored in [kept, replaced, both] {
        assert!(stored.unwrap().last().unwrap().conflict.is_some());
    }
    assert!(matches!(one.unwrap()[..], [CancelReply::Cancelled | CancelReply::Finished]));
    assert_eq!(two.unwrap()[0], CancelReply::Finished);
}

/// So did who changes limits, schedules, settings or a pause that somebody is changing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_changes_what_another_transaction_changes_leaves_others_their_connections() {
    let mut fixture = Fixture::fresh().await;
    fixture.options.pool_size = 1;
    let store = Arc::new(fixture.store().await);
    store.enqueue(&jobs(1)).await.unwrap();
    store.put_schedules(&[Schedule::new("s", "@daily", job())], None).await.unwrap();
    let locker = fixture.sql().await;
    let took = "BEGIN; SELECT windlass.pause('q'), windlass.limit_queue('limited', concurrency => 1), windlass.limit_keys('keyed', concurrency => 1),
        windlass.configure(max_crashes => 7), windlass.set_retention('q', 'completed', '1 hour'), windlass.pause_schedules('{s}', true)";
    locker.batch_execute(&fixture.text(took)).await.unwrap();
    let calls = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let limits = QueueLimits::default().with_concurrency(2);
            let keys = KeyLimitsChange::Default(KeyLimit::default().with_concurrency(2));
            let (settings, names) = (Settings::default().with_max_crashes(9), ["s".to_owned()]);
            tokio::join!(
                store.pause("q", false),
                store.limit("limited", &limits),
                store.limit_keys("keyed", &keys),
                store.configure(&settings),
                store.pause_schedules(&names, true),
                store.remove_schedules(&names),
            )
        }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let look = || async { (locker.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0).then_some(()) };
    eventually("one of them waits", look).await;
    store.enqueue(&[job().with_queue("other")]).await.expect("has nothing to do with it");
    locker.batch_execute("COMMIT").await.unwrap();
    let (resumed, limited, keyed, configured, paused, removed) = calls.await.unwrap();
    for done in [resumed, limited, keyed, configured] {
        done.unwrap();
    }
    assert_eq!((paused.unwrap().len(), removed.unwrap()), (1, vec![true]));
    assert_eq!(store.settings().await.unwrap().max_crashes, 9);
    assert_eq!(store.key_limits("keyed").await.unwrap().unwrap().default.concurrency, Some(2));
}

/// Where somebody changed limits of keys in a transaction that stayed open, the worker that leads asked some hundred times a second for what was due there, as if a claim were at it.
#[tokio::test]
async fn a_promotion_tells_claims_from_who_has_the_keys_for_long() {
    let s = impatient(Fixture::fresh().await).await;
    let store: Arc<dyn Store> = Arc::new(s.fixture.store().await);
    s.run("SELECT windlass.limit_keys('q', rate => 1, period => '1 hour')").await;
    store.enqueue(&[job().with_key("a"), job().with_key("a")]).await.unwrap();
    let worker = worker_on(&store).await;
    assert_eq!(worker.claim(2).await.len(), 1);
    s.run("UPDATE windlass.key_turn SET due_at = clock_timestamp() - interval '1 second' WHERE blocked")
        .await;
    let editor = open(&s.fixture, "windlass.limit_key('q', 'other', concurrency => 3)").await;
    let promote = "SELECT next_due_ms FROM windlass.promote(10)";
    let next = async |since: &str| {
        s.run(&format!("UPDATE windlass.claim SET claimed_at = clock_timestamp() - interval '{since}'"))
            .await;
        s.value::<f64>(promote).await
    };
    // From a time to come it is of before the clock was set back.
    for since in ["1 minute", "-1 minute"] {
        let next = next(since).await;
        assert!((100.0..=250.0).contains(&next), "{since}: {next} ms");
    }
    // On a busy machine it takes a while to ask, so that what was just claimed may have been for long.
    eventually("a claim is at it", || async { (next("0").await <= 2.0).then_some(()) }).await;
    editor.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(s.value::<Option<f64>>(promote).await, None, "it is seen to");
}
