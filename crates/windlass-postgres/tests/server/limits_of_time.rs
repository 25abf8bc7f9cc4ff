//! Limits of time that a role, a user or a dead client set: they cancel no settlement for ever, leave no lock
//! behind, and keep no job.

use crate::cluster::{Fixture, connect, url};
use std::{sync::Arc, time::Duration};
use windlass_conformance::steps::{
    Held, TestWorker, enqueue_jobs, eventually, rescue_of, state, worker, worker_on,
};
use windlass_core::{Disposition, JobState, Settled, Store};

fn complete_in(fixture: &Fixture, worker: &TestWorker, held: &Held) -> String {
    let (high, seq) = (held.claim.0, held.claim.1);
    let (lane, token) = (high >> 32, (high as u32).cast_signed());
    fixture.text(&format!(
        "SELECT windlass.complete_in({}, {lane}, {seq}, {token}, {}, '{}')",
        worker.id, held.job.id, held.job.position
    ))
}

/// Cancelled wherever it is, also just as its wait for a settle under way is over: no lock outlives its transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_completion_leaves_no_lock_in_the_session() {
    const ROUNDS: usize = 300;
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    enqueue_jobs(&store, 1).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    let call = complete_in(&fixture, &worker, &held);
    let user = Arc::new(fixture.sql().await);
    let pid: i32 = user.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let admin = fixture.sql().await;
    let key = format!("hashtext('{}.settle'), {}", fixture.schema, worker.id);
    let mut cancelled = 0;
    for round in 0..ROUNDS {
        let is_timed = round % 3 == 0;
        let waits = round % 3 == 1;
        let limit = if is_timed { "1ms" } else { "0" };
        // The limit of the round before is still on, and its cancellation may come late.
        let set = format!("SET statement_timeout = '{limit}'");
        while user.batch_execute(&set).await.is_err() {}
        if waits {
            admin.execute(&format!("SELECT pg_advisory_lock({key})"), &[]).await.unwrap(); // as settle does
        }
        let (sent, call, mut ended_early) = (Arc::clone(&user), call.clone(), false);
        let calling = tokio::spawn(async move {
            let done = sent.batch_execute(&format!("BEGIN; {call}")).await;
            while sent.batch_execute("ROLLBACK").await.is_err() {} // may be cancelled as well
            done
        });
        if waits {
            // Or the limit of the round before has ended it; it does not end otherwise.
            eventually("the completion waits for the settle", async || {
                let waiting = "SELECT 1 FROM pg_locks WHERE pid = $1 AND NOT granted";
                let waits = admin.query_opt(waiting, &[&pid]).await.unwrap().is_some();
                (waits || calling.is_finished()).then_some(())
            })
            .await;
            ended_early = calling.is_finished();
            // In the other order it is cancelled for certain, in this one also just as it goes on.
            if round % 2 == 0 {
                let both = format!("SELECT pg_advisory_unlock({key}), pg_cancel_backend($1)");
                admin.execute(&both, &[&pid]).await.unwrap();
            } else {
                admin.execute("SELECT pg_cancel_backend($1)", &[&pid]).await.unwrap();
                eventually("it is cancelled", async || calling.is_finished().then_some(())).await;
                admin.execute(&format!("SELECT pg_advisory_unlock({key})"), &[]).await.unwrap();
            }
        } else if !is_timed {
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            admin.execute("SELECT pg_cancel_backend($1)", &[&pid]).await.unwrap();
        }
        let called = calling.await.unwrap();
        assert!(!(ended_early && called.is_ok()), "round {round} completed beside a settle under way");
        if let Err(error) = called {
            assert_eq!(error.code().map(|code| code.code()), Some("57014"), "{error:?}");
            cancelled += 1;
        }
        let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = $1";
        let left: i64 = admin.query_one(locks, &[&pid]).await.unwrap().get(0);
        assert_eq!(left, 0, "round {round} left locks in an idle session");
    }
    assert!(cancelled >= ROUNDS / 20, "only {cancelled} of {ROUNDS} calls were cancelled");
    assert_eq!(worker.complete(&held).await, Settled::Accepted, "no lock keeps the worker from settling");
}

/// What a user's transaction may do with the rest of its life once it completed a job.
#[tokio::test]
async fn a_completion_bounds_how_long_its_transaction_lies_idle() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    enqueue_jobs(&store, 2).await;
    let worker = worker_on(&store).await;
    let held = worker.take(2).await;
    let user = fixture.sql().await;
    let limit = async || -> String {
        user.query_one("SHOW idle_in_transaction_session_timeout", &[]).await.unwrap().get(0)
    };
    user.batch_execute(&format!("BEGIN; {}", complete_in(&fixture, &worker, &held[0]))).await.unwrap();
    assert_eq!(limit().await, "1min");
    user.batch_execute("COMMIT").await.unwrap();
    assert_eq!(limit().await, "0", "the session is as it was");
    let call = complete_in(&fixture, &worker, &held[1]);
    user.batch_execute(&format!("SET idle_in_transaction_session_timeout = '7s'; BEGIN; {call}"))
        .await
        .unwrap();
    assert_eq!(limit().await, "7s", "what the user chose stands");
    user.batch_execute("ROLLBACK").await.unwrap();
}

/// A client that is gone in the middle of its transaction: the server ends that, and the job is rescued.
#[tokio::test]
async fn the_transaction_of_a_dead_client_does_not_keep_the_worker_from_rescue() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let ids = enqueue_jobs(&store, 3).await;
    let dead = worker(&store, &["q"], &[], Duration::from_millis(1)).await;
    let held = dead.take(3).await;
    let client = fixture.sql().await;
    let call = complete_in(&fixture, &dead, &held[0]);
    client.batch_execute(&format!("BEGIN; {call}")).await.unwrap();
    let rescuer = worker_on(&store).await.id;
    assert_eq!(store.rescue(rescuer).await.unwrap().workers, [], "the completion may still commit");
    // Only now: on a busy machine the transaction would be over before the rescue.
    client.batch_execute("SET LOCAL idle_in_transaction_session_timeout = '300ms'").await.unwrap();
    rescue_of(&store, &dead, 5).await;
    for id in ids {
        assert_eq!(state(&store, id).await, JobState::Available);
    }
}

/// A role whose statements may take a second: 2,000 jobs that failed in one settlement all the same, directly and
/// as a transaction-mode pooler has it.
#[tokio::test]
async fn a_limit_of_the_role_cancels_no_settlement() {
    let fixture = Fixture::shared().await;
    let admin = fixture.sql().await;
    let role = format!("r_{}", fixture.schema);
    admin
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET statement_timeout = '1s';
             ALTER ROLE {role} SET lock_timeout = '20ms'"
        ))
        .await
        .unwrap();
    // Where the machine is quick: what is written takes its time, longer than the role's statements may.
    let slow = fixture.text(
        "CREATE FUNCTION windlass.slow() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END $$;
         CREATE TRIGGER slow AFTER INSERT ON windlass.attempt_error FOR EACH STATEMENT EXECUTE FUNCTION windlass.slow()",
    );
    admin.batch_execute(&slow).await.unwrap();
    for parameters in ["", "&pooler=transaction"] {
        let url = format!("{}{parameters}", fixture.url.replace("//postgres@", &format!("//{role}@")));
        let store = windlass_postgres::PostgresStore::connect(&url, fixture.options.clone()).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        enqueue_jobs(&store, 2_000).await;
        let worker = worker_on(&store).await;
        let held = worker.take(2_000).await;
        let retry = || Disposition::Retry { delay: Duration::from_secs(3_600), error: "no".into() };
        let failed = held.iter().map(|held| held.exception(retry())).collect();
        let reply = worker.try_settle(vec![], failed).await.expect("settles");
        assert!(reply.exceptions.iter().all(|&fate| fate == Settled::Accepted));
        store.close().await;
    }
    admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_database_that_cannot_keep_every_text_is_refused() {
    let admin = connect(&url()).await;
    let name = format!("latin_{}", std::process::id());
    let create = format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    admin.batch_execute(&create).await.unwrap();
    let there = url().replace("/postgres", &format!("/{name}")).replace(&format!("/{name}@"), "/postgres@");
    let options = windlass_postgres::PostgresOptions::default();
    let refused = windlass_postgres::PostgresStore::connect(&there, options).await.map(|_| ()).unwrap_err();
    assert!(refused.is_invalid_input(), "{refused}");
    for says in ["LATIN1", "UTF8", &name] {
        assert!(refused.to_string().contains(says), "{refused}");
    }
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}
