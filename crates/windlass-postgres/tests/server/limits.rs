//! Limits of queues, as far as they are PostgreSQL's own: what is written and who is told, SQL for people, roles, crashes, and
//! programs and schemas of other versions.

use crate::cluster::{Fixture, connect};
use crate::own_cluster::OwnCluster;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::timeout;
use tokio_postgres::Client;
use windlass_conformance::steps::{
    DEADLINE, LATER, LEASE, MAX_CRASHES, QUEUE, TINY_LEASE, enqueue_jobs, eventually, queue, rescue_of,
    worker, worker_on,
};
use windlass_core::{ErrorKind, QueueLimits, QueueNeed, RateLimit, Share, ShareRequest, Store, WorkerId};
use windlass_postgres::{Access, PostgresStore};

fn at_once(concurrency: u32) -> QueueLimits {
    QueueLimits::default().with_concurrency(concurrency)
}

fn per(count: u32, period: Duration) -> QueueLimits {
    QueueLimits::default().with_rate(RateLimit::new(count, period))
}

/// Asks until nobody is changing the limits.
async fn ask(store: &Arc<dyn Store>, worker: WorkerId, running: u32, slots: u32, starts: u32) -> Share {
    let need = QueueNeed { queue: QUEUE.into(), running, slots, starts: starts.into() };
    let request = ShareRequest { worker, generation: 0, queues: vec![need] };
    eventually("a share", || async { store.share(&request).await.expect("share")[0] }).await
}

/// Whether a statement writes anything: then its transaction has an id.
pub(crate) async fn writes(fixture: &Fixture, client: &Client, statement: &str) -> bool {
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute(&fixture.text(statement)).await.expect(statement);
    let row = client.query_one("SELECT pg_current_xact_id_if_assigned() IS NOT NULL", &[]).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    row.get(0)
}

#[tokio::test]
async fn a_repeated_request_writes_nothing() {
    let fixture = Fixture::shared().await;
    let (store, client): (Arc<dyn Store>, _) = (Arc::new(fixture.store().await), fixture.sql().await);
    let (holder, waiting) = (worker_on(&store).await.id, worker_on(&store).await.id);
    let share = |worker, running, slots, starts| {
        format!(
            "SELECT * FROM windlass.share({worker}, '{{q}}', '{{{running}}}', '{{{slots}}}', '{{{starts}}}')"
        )
    };
    let limit = "SELECT windlass.limit_queue('q', 2, 1, '1 hour')";
    assert!(writes(&fixture, &client, limit).await);
    assert!(!writes(&fixture, &client, limit).await);
    for (worker, running, slots) in [(holder, 0, 2), (waiting, 0, 1)] {
        assert!(writes(&fixture, &client, &share(worker, running, slots, 1)).await);
    }
    for (worker, running, slots) in [(holder, 2, 2), (waiting, 0, 1)] {
        for starts in [0, 1] {
            assert!(!writes(&fixture, &client, &share(worker, running, slots, starts)).await);
        }
    }
    assert!(writes(&fixture, &client, &share(waiting, 0, 0, 0)).await);
    assert!(!writes(&fixture, &client, &share(waiting, 0, 0, 0)).await);
    let rate_only = "SELECT windlass.limit_queue('q', rate => 1, period => '1 hour')";
    assert!(writes(&fixture, &client, rate_only).await);
    assert!(writes(&fixture, &client, &share(waiting, 0, 5, 0)).await);
    assert!(!writes(&fixture, &client, &share(waiting, 0, 7, 1)).await);
    assert!(!writes(&fixture, &client, &format!("SELECT windlass.limited_queues({holder})")).await);
    assert!(writes(&fixture, &client, "SELECT windlass.unlimit_queue('q')").await);
    assert!(!writes(&fixture, &client, "SELECT windlass.unlimit_queue('q')").await);
    assert!(!writes(&fixture, &client, &share(waiting, 0, 5, 5)).await);
}

/// What a worker gave up waiting for changes nothing when it is carried out after all.
#[tokio::test]
async fn a_request_that_comes_too_late_changes_nothing() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    store.limit(QUEUE, &at_once(5)).await.unwrap();
    let (worker, other) = (worker_on(&store).await.id, worker_on(&store).await.id);
    let request = |generation, running, slots| {
        let need = QueueNeed { queue: QUEUE.into(), running, slots, starts: 0.into() };
        ShareRequest { worker, generation, queues: vec![need] }
    };
    let slots = async |request| store.share(&request).await.unwrap()[0].unwrap().slots;
    assert_eq!(slots(request(0, 0, 5)).await, Some(5));
    assert_eq!(slots(request(1, 3, 5)).await, Some(5));
    assert_eq!(slots(request(0, 0, 0)).await, Some(0), "nobody hears this");
    assert_eq!(ask(&store, other, 0, 5, 0).await.slots, Some(0), "the worker still has all of them");
    assert_eq!(slots(request(1, 0, 0)).await, Some(0));
    assert_eq!(ask(&store, other, 0, 5, 0).await.slots, Some(5));
}

/// A worker that hangs keeps its slots until its lease is over, but nobody waits for it to take more.
#[tokio::test]
async fn who_is_silent_wants_nothing() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    store.limit(QUEUE, &at_once(1)).await.unwrap();
    let [holder, silent, other] =
        [worker_on(&store).await.id, worker_on(&store).await.id, worker_on(&store).await.id];
    assert_eq!(ask(&store, holder, 0, 1, 0).await.slots, Some(1));
    assert_eq!(ask(&store, silent, 0, 1, 0).await.slots, Some(0));
    assert_eq!(ask(&store, holder, 0, 0, 0).await.slots, Some(0));
    assert_eq!(ask(&store, other, 0, 1, 0).await.slots, Some(0), "another has waited longer");
    let hangs =
        format!("UPDATE windlass.worker SET heartbeat_at = heartbeat_at - lease * 0.6 WHERE id = {silent}");
    fixture.sql().await.batch_execute(&fixture.text(&hangs)).await.unwrap();
    assert_eq!(ask(&store, other, 0, 1, 0).await.slots, Some(1));
}

/// Notes whom the store tells that there is something to know.
async fn listen(
    store: &Arc<dyn Store>,
) -> (Box<dyn windlass_core::Wakeup>, Arc<Mutex<Vec<Option<WorkerId>>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    let mut wakeup = store.wakeup();
    wakeup.on_request(Arc::new(move |worker| noted.lock().unwrap().push(worker)));
    eventually("it listens", || async { (!told.lock().unwrap().is_empty()).then_some(()) }).await;
    told.lock().unwrap().clear();
    (wakeup, told)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_and_who_has_too_much_is_told() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let (one, other) = (worker_on(&store).await.id, worker_on(&store).await.id);
    let (_wakeup, told) = listen(&store).await;
    let next = |what: &'static str| {
        let told = &told;
        async move {
            let seen = eventually(what, || async {
                let seen: BTreeSet<_> = told.lock().unwrap().drain(..).collect();
                (!seen.is_empty()).then_some(seen)
            });
            seen.await.into_iter().collect::<Vec<_>>()
        }
    };
    store.limit(QUEUE, &at_once(2)).await.unwrap();
    assert_eq!(next("limits changed").await, [None]);
    ask(&store, one, 0, 2, 0).await;
    ask(&store, other, 0, 2, 0).await;
    assert_eq!(next("it has too much").await, [Some(one)]);
    ask(&store, other, 0, 2, 0).await; // told once, until it asks again
    ask(&store, one, 1, 2, 0).await;
    assert_eq!(next("a slot is free").await, [Some(other)]);
    ask(&store, other, 0, 2, 0).await;
    store.deregister(one).await.unwrap();
    assert_eq!(next("its worker ended").await, [Some(other)]);
    store.limit(QUEUE, &QueueLimits::default()).await.unwrap();
    assert_eq!(next("limits went").await, [None]);
}

/// The last slot goes to one of two that ask at the same time, whatever else goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_slot_and_the_last_start_are_given_once() {
    let fixture = Fixture::shared().await;
    let stores: [Arc<dyn Store>; 2] = [Arc::new(fixture.store().await), Arc::new(fixture.store().await)];
    stores[0].limit("load", &at_once(50)).await.unwrap();
    let store = Arc::clone(&stores[0]);
    let load = tokio::spawn(async move {
        let worker = worker(&store, &["load"], &[], LATER).await.id;
        for n in (0..u32::MAX).cycle() {
            let need = QueueNeed { queue: "load".into(), running: 0, slots: n % 7, starts: 0.into() };
            store.share(&ShareRequest { worker, generation: 0, queues: vec![need] }).await.unwrap();
            enqueue_jobs(&store, 10).await;
        }
    });
    for round in 0..30 {
        let limits = at_once(1).with_rate(RateLimit::new(1, LATER));
        stores[0].limit(QUEUE, &limits).await.unwrap();
        let (one, other) = (worker_on(&stores[0]).await.id, worker_on(&stores[1]).await.id);
        let (first, second) = tokio::join!(ask(&stores[0], one, 0, 1, 1), ask(&stores[1], other, 0, 1, 1));
        assert_eq!(first.slots.unwrap() + second.slots.unwrap(), 1, "round {round}: {first:?} {second:?}");
        assert_eq!(first.starts.unwrap() + second.starts.unwrap(), 1, "round {round}: {first:?} {second:?}");
        // The end of one races with the next request of the other, and with changed limits.
        let (holder, next) = if first.slots == Some(1) { (one, other) } else { (other, one) };
        let changed = limits.with_concurrency(1 + round % 2);
        let (ended, asked, limited) = tokio::join!(
            stores[0].deregister(holder),
            ask(&stores[1], next, 0, 3, 0),
            stores[1].limit(QUEUE, &changed)
        );
        ended.unwrap();
        limited.unwrap();
        assert!(asked.slots.unwrap() <= 1 + round % 2, "round {round}: {asked:?}");
        assert_eq!(ask(&stores[0], next, 0, 3, 0).await.slots, Some(1 + round % 2), "round {round}");
        stores[0].deregister(next).await.unwrap();
        stores[0].limit(QUEUE, &QueueLimits::default()).await.unwrap();
    }
    load.abort();
}

/// Calls that name the same queues in different orders do not wait for one another in a circle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_queues_does_not_matter() {
    let fixture = Fixture::shared().await;
    let names: Vec<Arc<str>> = (0..8).map(|n| format!("q{n}").into()).collect();
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    for name in &names {
        store.limit(name, &at_once(5)).await.unwrap();
    }
    let calls = (0..4_u64).map(|seed| {
        let (store, mut names) = (Arc::clone(&store), names.clone());
        tokio::spawn(async move {
            let mut rng = fastrand::Rng::with_seed(seed);
            for _ in 0..30 {
                let worker = worker_on(&store).await.id;
                for _ in 0..3 {
                    rng.shuffle(&mut names);
                    let need = |name: &Arc<str>| QueueNeed {
                        queue: Arc::clone(name),
                        running: 0,
                        slots: 3,
                        starts: 0.into(),
                    };
                    let queues = names.iter().map(need).collect();
                    store.share(&ShareRequest { worker, generation: 0, queues }).await.expect("no deadlock");
                }
                store.deregister(worker).await.expect("no deadlock");
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

/// The server's clock cannot be moved here, so what was given out is: an hour into the future, by a clock that was ahead.
#[tokio::test]
async fn a_clock_that_is_set_back_neither_stalls_a_rate_nor_exceeds_it() {
    let fixture = Fixture::shared().await;
    let (store, client): (Arc<dyn Store>, _) = (Arc::new(fixture.store().await), fixture.sql().await);
    let worker = worker_on(&store).await.id;
    let rate = RateLimit::new(3, Duration::from_millis(300));
    store.limit(QUEUE, &QueueLimits::default().with_rate(rate)).await.unwrap();
    assert_eq!(ask(&store, worker, 0, 1, 2).await.starts, Some(2));
    let ahead = "UPDATE windlass.started SET at = at + interval '1 hour', clock = clock + interval '1 hour'";
    client.batch_execute(&fixture.text(ahead)).await.unwrap();
    let share = ask(&store, worker, 0, 1, 3).await;
    assert_eq!(share.starts, Some(1), "as if it was given out just now");
    let next = share.next_start.expect("a time");
    assert!(next <= rate.period + rate.grace() + Duration::from_millis(1), "{next:?}");
    let again = eventually("there are more", || async {
        let share = ask(&store, worker, 0, 1, 3).await;
        share.starts.filter(|starts| *starts > 0)
    });
    again.await;
    // And a clock that only stands.
    let stands = "UPDATE windlass.started SET clock = clock_timestamp() + interval '1 minute'";
    client.batch_execute(&fixture.text(stands)).await.unwrap();
    eventually("there are more again", || async {
        ask(&store, worker, 0, 1, 1).await.starts.filter(|starts| *starts > 0)
    })
    .await;
}

#[tokio::test]
async fn people_set_limits_by_sql() {
    let fixture = Fixture::shared().await;
    let (store, client): (Arc<dyn Store>, _) = (Arc::new(fixture.store().await), fixture.sql().await);
    let run = |sql: &'static str| {
        let text = fixture.text(sql);
        let client = &client;
        async move { client.query_one(&text, &[]).await }
    };
    run("SELECT windlass.limit_queue('q', concurrency => 5, rate => 100, period => '1 second', burst => 20)")
        .await
        .unwrap();
    let both = at_once(5).with_rate(RateLimit::new(100, Duration::from_secs(1)).with_burst(20));
    assert_eq!(queue(&store, QUEUE).await.limits, both);
    let seen =
        run("SELECT concurrency, rate, rate_period::text, rate_burst FROM windlass.queues").await.unwrap();
    assert_eq!((seen.get(0), seen.get(1), seen.get(2), seen.get(3)), (5, 100, "00:00:01", 20));
    run("SELECT windlass.limit_queue('q', rate => 3, period => '1 day')").await.unwrap();
    assert_eq!(queue(&store, QUEUE).await.limits, per(3, Duration::from_secs(86_400)));
    for (call, code, said) in [
        ("windlass.limit_queue('q')", "WL003", "needs a concurrency, or a rate"),
        ("windlass.limit_queue('q', 0)", "WL003", "concurrency must be 1 to 1000000, got 0"),
        ("windlass.limit_queue('q', 1, 5)", "WL003", "needs a count and a period"),
        ("windlass.limit_queue('q', 1, burst => 5)", "WL003", "needs a count and a period"),
        ("windlass.limit_queue('q', 1, period => '1 s')", "WL003", "needs a count and a period"),
        ("windlass.limit_queue('q', 1, 0, '1 s')", "WL003", "count of a rate must be 1 to"),
        ("windlass.limit_queue('q', 1, 5, '99 ms')", "WL003", "100 ms to 366 days, got 00:00:00.099"),
        ("windlass.limit_queue('q', 1, 5, '2 years')", "WL003", "100 ms to 366 days"),
        ("windlass.limit_queue('q', 1, 5, '178000000 years')", "WL003", "366 days, got 178000000 years"),
        ("windlass.limit_keys('q', rate => 5, period => '-178000000 years')", "WL003", "100 ms to 366 days"),
        (
            "windlass.limit_key('q', 'a', rate => 5, period => '2147483647 days')",
            "WL003",
            "100 ms to 366 days",
        ),
        ("windlass.limit_queue('q', 1, 5, '1 s', 6)", "WL003", "burst of a rate must be 1 to 5, got 6"),
        ("windlass.limit_queue('q', 1, 1000, '1 s', 10)", "WL003", "use a burst of at least 100"),
        ("windlass.limit_queue('no spaces', 1)", "WL002", "invalid queue name 'no spaces'"),
        ("windlass.limit_queue('.', 1)", "WL002", "invalid queue name '.'; browsers"),
        ("windlass.enqueue('k', '{}', queue => '..')", "WL002", "invalid queue name '..'; browsers"),
        ("windlass.set_retention('..', 'cancelled', '1 day')", "WL002", "invalid queue name '..'; browsers"),
        ("windlass.limit_queue(NULL, 1)", "WL002", "invalid queue name NULL"),
    ] {
        let error = client.query_one(&fixture.text(&format!("SELECT {call}")), &[]).await.expect_err(call);
        let error = error.as_db_error().expect("the server's");
        assert_eq!(error.code().code(), code, "{call}: {error}");
        assert!(error.message().contains(said), "{call}: {error}");
    }
    assert_eq!(queue(&store, QUEUE).await.limits, per(3, Duration::from_secs(86_400)));
    assert!(run("SELECT windlass.unlimit_queue('q')").await.unwrap().get::<_, bool>(0));
    assert!(!run("SELECT windlass.unlimit_queue('unknown')").await.unwrap().get::<_, bool>(0));
    assert!(queue(&store, QUEUE).await.limits.is_none());
}

#[tokio::test]
async fn each_role_does_its_part() {
    let fixture = Fixture::shared().await;
    let mut roles = Vec::new();
    for access in Access::ALL {
        let url = fixture.role(&access.to_string().replace('-', "_"), &[access]).await;
        let store = PostgresStore::connect(&url, fixture.options.clone()).await.unwrap();
        roles.push((access, Arc::new(store) as Arc<dyn Store>));
    }
    let owner: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&owner).await.id;
    let need = QueueNeed { queue: QUEUE.into(), running: 0, slots: 1, starts: 0.into() };
    let request = ShareRequest { worker, generation: 0, queues: vec![need] };
    for (access, role) in roles {
        let limited = role.limit(QUEUE, &at_once(3)).await;
        let shared = role.share(&request).await;
        for (reply, may) in
            [(limited.map(drop), access == Access::Operator), (shared.map(drop), access == Access::Worker)]
        {
            match reply {
                Ok(()) => assert!(may, "{access} may"),
                Err(error) => {
                    assert!(!may && error.kind() == ErrorKind::PermissionDenied, "{access}: {error}");
                }
            }
        }
        if matches!(access, Access::Viewer | Access::Operator) {
            assert_eq!(role.queues().await.unwrap().len(), 1, "{access}");
        }
        if access == Access::Worker {
            assert_eq!(role.heartbeat(worker).await.unwrap().limited, [QUEUE.into()]);
            role.maintain().await.unwrap();
        }
    }
}

/// A crash of the server forgets no share that a worker was told of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_survive_a_crash() {
    let cluster = OwnCluster::start();
    let url = format!("{}?schema=limits", cluster.url);
    let open = || async {
        let store = PostgresStore::connect(&url, Default::default()).await.expect("connects");
        Arc::new(store) as Arc<dyn Store>
    };
    let store = open().await;
    store.migrate().await.unwrap();
    store.limit(QUEUE, &at_once(3).with_rate(RateLimit::new(5, LATER))).await.unwrap();
    let (one, other) = (worker_on(&store).await.id, worker_on(&store).await.id);
    for round in 1..=3 {
        assert_eq!(ask(&store, one, 0, round, 1).await.slots, Some(round));
        cluster.crash_and_restart();
        let store = open().await;
        let share = ask(&store, other, 0, 3, 0).await;
        assert_eq!(share.slots, Some(3 - round));
        ask(&store, other, 0, 0, 0).await;
    }
    let store = open().await;
    assert_eq!(ask(&store, other, 0, 0, 5).await.starts, Some(2));
    drop(connect(&cluster.url).await);
}

/// After a restore nobody has a share but who asks anew; limits stay.
#[tokio::test]
async fn shares_do_not_move_to_another_cluster() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    store.limit(QUEUE, &at_once(3)).await.unwrap();
    let before = worker_on(&store).await.id;
    assert_eq!(ask(&store, before, 0, 3, 0).await.slots, Some(3));
    let moved = "UPDATE windlass.home SET xid = (xid::text::bigint + 1000000)::text::xid8, system = 1";
    fixture.sql().await.batch_execute(&fixture.text(moved)).await.unwrap();
    let restored: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&restored).await.id;
    assert_eq!(ask(&restored, worker, 0, 5, 0).await.slots, Some(3));
    // A share whose worker is not there, as a partial dump may bring.
    let orphan = "INSERT INTO windlass.slot (queue, worker_id, slots, want) VALUES ('q', 999, 2, 2), ('other', 998, 1, 1)";
    fixture.sql().await.batch_execute(&fixture.text(orphan)).await.unwrap();
    restored.maintain().await.unwrap();
    let left = fixture.text("SELECT array_agg(worker_id) FROM windlass.slot");
    assert_eq!(fixture.sql().await.query_one(&left, &[]).await.unwrap().get::<_, Vec<i32>>(0), [worker.0]);
}

/// Who changes the limits of a queue, in a transaction that stays open, stops no rescue. Who asks for a share meanwhile is told to ask again; and then what the dead worker had
/// is given to others, whether housekeeping has removed it or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_change_of_limits_stops_no_rescue() {
    let fixture = Fixture::shared().await;
    let (store, client): (Arc<dyn Store>, _) = (Arc::new(fixture.store().await), fixture.sql().await);
    store.limit(QUEUE, &at_once(3)).await.unwrap();
    enqueue_jobs(&store, 2).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    assert_eq!(ask(&store, dying.id, 0, 3, 0).await.slots, Some(3));
    dying.take(2).await;
    let other = worker_on(&store).await.id;
    client.batch_execute(&fixture.text("BEGIN; SELECT windlass.limit_queue('q', 5)")).await.unwrap();
    // Before it waited for the calls' deadline, and then again.
    let rescue = timeout(DEADLINE, rescue_of(&store, &dying, MAX_CRASHES));
    assert_eq!(rescue.await.expect("waits for nobody").rescued, 2);
    let request = ShareRequest { worker: other, generation: 0, queues: vec![nine_of(QUEUE)] };
    let shares = store.share(&request).await.expect("is told by the server, not by a deadline");
    assert_eq!(shares, [None], "somebody has the lock");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(ask(&store, other, 0, 9, 0).await.slots, Some(5), "the dead have none");
    store.maintain().await.unwrap();
    let left = fixture.text("SELECT array_agg(worker_id) FROM windlass.slot");
    assert_eq!(client.query_one(&left, &[]).await.unwrap().get::<_, Vec<i32>>(0), [other.0]);
}

/// It costs who asks that queue and no other, whichever of them is locked first; nor does who waits for it make others wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_change_of_limits_costs_that_queue_alone() {
    let fixture = Fixture::shared().await;
    let (store, client): (Arc<dyn Store>, _) = (Arc::new(fixture.store().await), fixture.sql().await);
    let queues: Vec<String> = (0..8).map(|n| format!("q{n}")).collect();
    for queue in &queues {
        store.limit(queue, &at_once(9)).await.unwrap();
    }
    let names: Vec<&str> = queues.iter().map(String::as_str).collect();
    let worker = worker(&store, &names, &[], LEASE).await.id;
    let open = "BEGIN; SELECT windlass.limit_queue('q3', 5), windlass.limit_queue('q6', 5)";
    client.batch_execute(&fixture.text(open)).await.unwrap();
    let request =
        ShareRequest { worker, generation: 0, queues: names.iter().map(|queue| nine_of(queue)).collect() };
    let slots = async || {
        let shares = store.share(&request).await.expect("shares of those that nobody has locked");
        shares.iter().map(|share| share.map(|share| share.slots.unwrap())).collect::<Vec<_>>()
    };
    let locked = |n| n == 3 || n == 6;
    assert_eq!(slots().await, (0..8).map(|n| (!locked(n)).then_some(9)).collect::<Vec<_>>());
    let counted = fixture.text("SELECT count(*) FROM windlass.slot WHERE queue IN ('q3', 'q6')");
    assert_eq!(fixture.sql().await.query_one(&counted, &[]).await.unwrap().get::<_, i64>(0), 0);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(slots().await, (0..8).map(|n| Some(if locked(n) { 5 } else { 9 })).collect::<Vec<_>>());
}

/// What a worker says that would like to run nine of a queue.
fn nine_of(queue: &str) -> QueueNeed {
    QueueNeed { queue: queue.into(), running: 0, slots: 9, starts: 0.into() }
}

/// Nor does it stop housekeeping, which leaves what the dead had of that queue for its next round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_change_of_limits_stops_no_housekeeping() {
    let fixture = Fixture::shared().await;
    let (store, client): (Arc<dyn Store>, _) = (Arc::new(fixture.store().await), fixture.sql().await);
    store.limit(QUEUE, &at_once(3)).await.unwrap();
    let dead = "INSERT INTO windlass.slot (queue, worker_id, slots, want) VALUES ('q', 997, 2, 2), ('q', 998, 2, 2), ('other', 998, 1, 1), ('other', 999, 1, 1)";
    client.batch_execute(&fixture.text(dead)).await.unwrap();
    let left = async || {
        let left =
            "SELECT coalesce(string_agg(queue || worker_id, ' ' ORDER BY worker_id), '') FROM windlass.slot";
        let sql = fixture.sql().await;
        sql.query_one(&fixture.text(left), &[]).await.unwrap().get::<_, String>(0)
    };
    client.batch_execute(&fixture.text("BEGIN; SELECT windlass.unlimit_queue('q')")).await.unwrap();
    timeout(DEADLINE, store.maintain()).await.expect("waits for nobody").unwrap();
    assert_eq!(left().await, "q997 q998");
    client.batch_execute("ROLLBACK").await.unwrap();
    store.maintain().await.unwrap();
    assert_eq!(left().await, "");
}

/// What a claim says of a queue without a share is to a program that knows no limits a claim without jobs.
#[tokio::test]
async fn an_older_program_gets_nothing_and_is_not_misled() {
    let fixture = Fixture::shared().await;
    let (store, client): (Arc<dyn Store>, _) = (Arc::new(fixture.store().await), fixture.sql().await);
    store.limit(QUEUE, &at_once(3)).await.unwrap();
    let worker = worker_on(&store).await;
    let claim =
        fixture.text(&format!("SELECT head, id FROM windlass.claim({}, '{{q}}', '{{5}}')", worker.id));
    enqueue_jobs(&store, 3).await;
    ask(&store, worker.id, 0, 1, 0).await;
    worker.drain(10).await;
    ask(&store, worker.id, 0, 0, 0).await;
    // A claim that was held up while it looked counts its lane as one with work.
    let mut tries = 1..=50;
    while !client.query(&claim, &[]).await.unwrap().is_empty() {
        assert!(tries.next().is_some(), "nothing is there to be had");
    }
    enqueue_jobs(&store, 3).await;
    let rows = client.query(&claim, &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].get::<_, Vec<i64>>(0), [-1, 0, 0, 0, 1, 0], "neither lane 0 nor any jobs");
}

/// On a schema that an older program made there are no limits, and everything else works.
#[tokio::test]
async fn a_schema_without_limits_is_worked_on() {
    let fixture = Fixture::shared().await;
    let drop = "DROP FUNCTION windlass.limited_queues(integer);
        DROP FUNCTION windlass.share;
        DROP FUNCTION windlass.limit_queue(text, integer, integer, interval, integer);
        DROP FUNCTION windlass.unlimit_queue(text); DROP FUNCTION windlass.forget_shares(integer);
        DROP VIEW windlass.queues; CREATE VIEW windlass.queues AS
            SELECT 'q'::text AS name, false AS paused, 0::bigint AS available, 0::bigint AS running, 0::bigint AS scheduled,
                   0::bigint AS retryable, 0::bigint AS completed, 0::bigint AS cancelled, 0::bigint AS discarded,
                   NULL::timestamptz AS oldest_available_at, '{}'::text[] AS estimates";
    fixture.sql().await.batch_execute(&fixture.text(drop)).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await.id;
    assert!(store.heartbeat(worker).await.unwrap().limited.is_empty());
    store.maintain().await.unwrap();
    assert!(queue(&store, QUEUE).await.limits.is_none());
    let need = QueueNeed { queue: QUEUE.into(), running: 0, slots: 1, starts: 0.into() };
    let refused =
        store.share(&ShareRequest { worker, generation: 0, queues: vec![need] }).await.expect_err("too old");
    assert_eq!(refused.kind(), ErrorKind::SchemaTooOld, "{refused}");
    for limits in [at_once(1), QueueLimits::default()] {
        let refused = store.limit(QUEUE, &limits).await.expect_err("too old");
        assert_eq!(refused.kind(), ErrorKind::SchemaTooOld, "{refused}");
    }
}

/// Shares of workers that are no more go also where others, which somebody has locked, are more than a round sees.
#[tokio::test]
async fn shares_are_forgotten_beside_many_that_are_locked() {
    let fixture = Fixture::shared().await;
    let (sql, other) = (fixture.sql().await, fixture.sql().await);
    let left = "INSERT INTO windlass.slot (queue, worker_id, slots, want) SELECT 'q' || i, 1000000, 1, 1 FROM generate_series(1, 150) AS i";
    sql.batch_execute(&fixture.text(left)).await.unwrap();
    let lock = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtext('{}.limit'), hashtext('q' || i)) FROM generate_series(1, 150) AS i WHERE i % 50 <> 0",
        fixture.schema
    );
    other.batch_execute(&lock).await.unwrap();
    let (forget, there) = (
        fixture.text("SELECT windlass.forget_shares(1000)"),
        fixture.text("SELECT count(*) FROM windlass.slot"),
    );
    let look = || async {
        sql.query_one(&forget, &[]).await.unwrap();
        (sql.query_one(&there, &[]).await.unwrap().get::<_, i64>(0) == 147).then_some(())
    };
    eventually("the three that nobody has locked", look).await;
    other.batch_execute("COMMIT").await.unwrap();
}
