//! The audit log by number, and what its pages read.

use crate::fixture::Fixture;
use rusqlite::Connection;
use windlass_core::{AuditFilter, AuditStore, JobStore};

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
