//! The audit log by number, and what its pages read.

use crate::fixture::{Fixture, LEASE};
use rusqlite::Connection;
use std::time::Duration;
use windlass_core::{AuditFilter, AuditStore, JobStore, Program, WorkerSpec};

const FILL: &str = "INSERT INTO audit_entry (id, at, actor, via, action, target, outcome)
    WITH RECURSIVE n (i) AS (VALUES (?1) UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
    SELECT i, 9000000000000000 + i, 'ci', 'sdk', CASE i WHEN 1 THEN 'rare' ELSE 'jobs.cancel' END, i, 'done' FROM n";

/// The newest million are kept, however young the others are.
#[tokio::test]
async fn too_many_are_removed() {
    let f = Fixture::new();
    let most = AuditFilter::MOST_KEPT.cast_signed();
    let fill = Connection::open(f.path()).unwrap();
    fill.execute(FILL, [1, 2_500]).unwrap();
    fill.execute(FILL, [most + 2_490, most + 2_495]).unwrap();
    f.maintain().await.unwrap();
    let page = f.store.audit(&AuditFilter::default()).await.unwrap();
    let ids: Vec<_> = page.entries.iter().map(|record| record.id.number).collect();
    let kept: Vec<_> = (2_496..=2_500).chain(most + 2_490..=most + 2_495).rev().collect();
    assert_eq!(ids, kept);
}

/// A look at many entries of which none fits ends, and says where to go on.
#[tokio::test]
async fn what_is_rare_is_found_page_by_page() {
    let f = Fixture::new();
    Connection::open(f.path()).unwrap().execute(FILL, [1, 25_000]).unwrap();
    let mut filter =
        AuditFilter { actor: Some("ci".into()), action: Some("rare".into()), ..AuditFilter::default() };
    let mut sizes = Vec::new();
    loop {
        let page = f.store.audit(&filter).await.unwrap();
        sizes.push(page.entries.len());
        filter.before = page.next;
        if filter.before.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [0, 0, 1]);
}

async fn begins(f: &Fixture, version: &str) {
    let program =
        Program { name: Some("shop".into()), app_version: Some(version.into()), ..Program::default() };
    let (name, queues) = ("test".to_owned(), vec!["default".to_owned()]);
    f.register(&WorkerSpec { name, queues, kinds: vec![], lease: LEASE, program }).await.unwrap();
}

/// The marks after some rounds of housekeeping, the oldest first.
async fn marks(f: &Fixture) -> Vec<String> {
    for _ in 0..3 {
        f.maintain().await.unwrap();
        f.advance(Duration::from_secs(10));
    }
    let page = f.store.audit(&AuditFilter::default()).await.unwrap();
    page.entries.into_iter().rev().map(|record| record.entry.target).collect()
}

/// A mark is younger than no worker then, and who registers next is older than those who did before.
#[tokio::test]
async fn a_deploy_is_marked_once_though_the_clock_was_set_back() {
    let f = Fixture::new();
    begins(&f, "1").await;
    begins(&f, "2").await;
    f.set_back(Duration::from_secs(3_600));
    assert_eq!(marks(&f).await, ["shop 2"]);
    begins(&f, "3").await;
    assert_eq!(marks(&f).await, ["shop 2", "shop 3"]);
}
