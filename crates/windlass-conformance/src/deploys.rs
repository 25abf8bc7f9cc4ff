//! Deploys: the first worker of another version of a program marks one, and nothing else does.

use crate::{Fixture, steps::*};
use std::sync::Arc;
use tokio::task::JoinSet;
use windlass_core::{AuditFilter, Program, Store, WorkerId, WorkerSpec};

async fn begins(store: &Arc<dyn Store>, program: &str, version: Option<&str>) -> WorkerId {
    let program = Program {
        name: Some(program.to_owned()),
        app_version: version.map(str::to_owned),
        ..Program::default()
    };
    let (name, queues) = ("test".to_owned(), vec!["default".to_owned()]);
    let spec = WorkerSpec { name, queues, kinds: vec![], lease: LEASE, program };
    store.register(&spec).await.expect("register").worker
}

/// The marks after a round of housekeeping, the oldest first.
async fn marks(store: &Arc<dyn Store>) -> Vec<String> {
    store.maintain().await.expect("maintain");
    let filter = AuditFilter { action: Some("mark".into()), ..AuditFilter::default() };
    let page = store.audit(&filter).await.expect("a page");
    let entries = page.entries.into_iter().rev().map(|record| record.entry);
    entries
        .map(|entry| {
            assert_eq!((&*entry.actor, &*entry.via, &*entry.outcome), ("windlass", "worker", "done"));
            assert!(entry.reason.is_some_and(|reason| reason.contains("was the first of it")));
            entry.target
        })
        .collect()
}

/// The first of another version of a program marks it, once, whoever keeps house; going back to the one before is a deploy, too.
pub async fn another_version_marks_a_deploy(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    let first = begins(&store, "shop", Some("1")).await;
    assert_eq!(marks(&store).await, [""; 0], "the first of all");
    let second = begins(&store, "shop", Some("2")).await;
    begins(&store, "billing", Some("7")).await;
    assert_eq!(marks(&store).await, ["shop 2"]);
    begins(&store, "shop", Some("2")).await;
    begins(&store, "shop", Some("1")).await;
    assert_eq!(marks(&other).await, ["shop 2"], "both were there");
    store.deregister(first).await.expect("deregister");
    store.deregister(second).await.expect("deregister");
    begins(&store, "shop", None).await;
    assert_eq!(marks(&store).await, ["shop 2"], "who says none marks none");
    begins(&store, "billing", Some("8")).await;
    assert_eq!(marks(&store).await, ["shop 2", "billing 8"]);
    assert_eq!(marks(&other).await, ["shop 2", "billing 8"]);
}

/// A program that is started anew marks nothing, also when all its workers were gone meanwhile; another version after such a pause does.
pub async fn a_restart_marks_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let old = begins(&store, "shop", None).await;
    let mut last = begins(&store, "shop", Some("1")).await;
    assert_eq!(marks(&store).await, ["shop 1"], "it says a version for the first time");
    store.deregister(old).await.expect("deregister");
    for _ in 0..3 {
        store.deregister(last).await.expect("deregister");
        last = begins(&store, "shop", Some("1")).await;
        assert_eq!(marks(&store).await, ["shop 1"]);
    }
    for version in ["2", "1"] {
        store.deregister(last).await.expect("deregister");
        last = begins(&store, "shop", Some(version)).await;
        marks(&store).await;
    }
    assert_eq!(marks(&store).await, ["shop 1", "shop 2", "shop 1"]);
}

/// A hundred that begin at once, while several keep house, are one deploy.
pub async fn many_at_once_mark_one_deploy(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    begins(&store, "shop", Some("1")).await;
    let mut all = JoinSet::new();
    for n in 0..100 {
        let store = Arc::clone(&store);
        all.spawn(async move {
            begins(&store, "shop", Some("2")).await;
            if n % 20 == 0 {
                store.maintain().await.expect("maintain");
            }
        });
    }
    all.join_all().await;
    assert_eq!(marks(&store).await, ["shop 2"]);
}
