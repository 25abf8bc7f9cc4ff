//! What workers run, use and do, as they say it: for people.

use crate::{Fixture, steps::*};
use std::{sync::Arc, time::Duration};
use windlass_core::{ErrorKind, Limits, Load, Program, Store, WorkerId, WorkerRecord, WorkerSpec};

fn spec(program: Program) -> WorkerSpec {
    WorkerSpec { name: "test".into(), queues: vec!["default".into()], kinds: vec![], lease: LEASE, program }
}

async fn listed(store: &Arc<dyn Store>, worker: WorkerId) -> WorkerRecord {
    let workers = store.status().await.expect("status").workers;
    workers.into_iter().find(|listed| listed.id == worker).expect("listed")
}

/// What a worker runs is listed from its registration on, and when it is gone.
pub async fn what_a_worker_runs_is_listed(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let said = |text: &str| Some(text.to_owned());
    let program =
        Program { name: said("shop \"é\""), app_version: said("2.4.1"), engine: said("Rust 0.1.0") };
    let worker = store.register(&spec(program.clone())).await.expect("register").worker;
    let silent = store.register(&spec(Program::default())).await.expect("register").worker;
    let elsewhere = fixture.open().await;
    assert_eq!(listed(&elsewhere, worker).await.program, program);
    assert_eq!(listed(&elsewhere, silent).await.program, Program::default());
    store.heartbeat(worker).await.expect("heartbeat");
    store.deregister(worker).await.expect("deregister");
    assert_eq!(listed(&store, worker).await.program, program);
}

/// The last heartbeat counts, also one that says nothing; those of others change nothing.
pub async fn the_last_heartbeat_says_the_load(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (worker, other) = (worker_on(&store).await.id, worker_on(&store).await.id);
    assert_eq!(listed(&store, worker).await.load, Load::default());
    let loads = [
        Load { memory_bytes: Some(212 << 20), jobs_per_second: Some(2_604.5) },
        Load { memory_bytes: Some(0), jobs_per_second: Some(0.0) },
        Load { memory_bytes: None, jobs_per_second: Some(0.25) },
        Load::default(),
    ];
    for load in loads {
        store.heartbeat_with(worker, load).await.expect("heartbeat");
        store
            .heartbeat_with(other, Load { memory_bytes: Some(7), jobs_per_second: None })
            .await
            .expect("heartbeat");
        assert_eq!(listed(&store, worker).await.load, load);
        assert_eq!(listed(&store, other).await.load.memory_bytes, Some(7));
    }
    store.deregister(worker).await.expect("deregister");
    let late = Load { memory_bytes: Some(1), jobs_per_second: None };
    let refused = store.heartbeat_with(worker, late).await.expect_err("it is gone");
    assert!(refused.is_lease_lost(), "{refused}");
    assert_eq!(listed(&store, worker).await.load, Load::default());
}

/// What nobody could show is refused, and nothing is registered.
pub async fn a_senseless_program_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (long, fits) = ("x".repeat(Program::MAX_BYTES + 1), "x".repeat(Program::MAX_BYTES));
    for text in ["", "a\0b", "a\nb", "\u{1b}[31m", &long] {
        let programs = [
            ("program", Program { name: Some(text.to_owned()), ..Program::default() }),
            ("app_version", Program { app_version: Some(text.to_owned()), ..Program::default() }),
            ("engine", Program { engine: Some(text.to_owned()), ..Program::default() }),
        ];
        for (field, program) in programs {
            let refused = store.register(&spec(program)).await.expect_err("refused");
            assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{text:?}: {refused}");
            assert!(refused.to_string().contains(field), "{refused}");
        }
    }
    assert!(store.status().await.expect("status").workers.is_empty());
    store.register(&spec(Program { app_version: Some(fits), ..Program::default() })).await.expect("it fits");
}

/// So is who cannot be registered: a lease that is none, or longer than anything, and texts that not every store can keep.
pub async fn a_senseless_worker_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let fine = || spec(Program::default());
    let nul = || "a\0b".to_owned();
    for (worker, kind, says) in [
        (WorkerSpec { lease: Duration::ZERO, ..fine() }, ErrorKind::InvalidOption, "lease"),
        (WorkerSpec { lease: Duration::MAX, ..fine() }, ErrorKind::InvalidOption, "100 years"),
        (WorkerSpec { name: nul(), ..fine() }, ErrorKind::InvalidOption, "name of a worker"),
        (WorkerSpec { kinds: vec![nul()], ..fine() }, ErrorKind::InvalidOption, "a kind"),
        (WorkerSpec { queues: vec!["a b".into()], ..fine() }, ErrorKind::InvalidName, "a b"),
    ] {
        let refused = store.register(&worker).await.expect_err("refused");
        assert_eq!(refused.kind(), kind, "{refused}");
        assert!(refused.to_string().contains(says), "{refused}");
    }
    assert!(store.status().await.expect("status").workers.is_empty());
    assert!(store.queues().await.expect("queues").is_empty());
    for lease in [Duration::from_micros(1), Limits::LONGEST] {
        store.register(&WorkerSpec { lease, ..fine() }).await.expect("the shortest and the longest");
    }
}
