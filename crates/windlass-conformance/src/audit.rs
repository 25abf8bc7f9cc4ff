//! The audit log: what was written is read, newest first, for as long as it is kept.

use crate::{Fixture, steps::*};
use std::{sync::Arc, time::Duration};
use windlass_core::{Args, AuditEntry, AuditFilter, AuditRecord, ErrorKind, Settings, Store};

fn entry(actor: &str, action: &str, target: &str) -> AuditEntry {
    AuditEntry::new(actor, action, target)
}

/// So many entries on numbered targets.
fn numbered(count: usize) -> Vec<AuditEntry> {
    (0..count).map(|n| entry("anna", "jobs.cancel", &n.to_string())).collect()
}

async fn append(store: &Arc<dyn Store>, entries: &[AuditEntry]) {
    store.append_audit(entries).await.expect("append");
}

/// Every entry that the filter selects, page by page.
async fn read(store: &Arc<dyn Store>, mut filter: AuditFilter) -> Vec<AuditRecord> {
    let mut read = Vec::new();
    loop {
        let page = store.audit(&filter).await.expect("a page");
        assert!(page.entries.len() <= filter.limit as usize);
        read.extend(page.entries);
        filter.before = page.next;
        if filter.before.is_none() {
            return read;
        }
    }
}

async fn targets(store: &Arc<dyn Store>, filter: AuditFilter) -> Vec<String> {
    read(store, filter).await.into_iter().map(|record| record.entry.target).collect()
}

/// An entry is read as it was written, by every caller, with all that it says and with little.
pub async fn what_is_written_is_read(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    assert_eq!(read(&store, AuditFilter::default()).await, []);
    append(&store, &[]).await;
    let filter = Args::parse(r#"{"queue": "mail",  "state": "discarded"}"#).expect("JSON");
    let mut full = entry("anna ä \"'\n", "jobs.delete", "/jobs")
        .with_via("bearer")
        .with_filter(filter)
        .with_reason("a typo 🦀")
        .with_count(12_345)
        .with_outcome("permission_denied");
    (full.role, full.request_id) = (Some("admin".into()), Some("r_1".into()));
    let plain = entry("bob", "queues.pause", "mail");
    append(&store, std::slice::from_ref(&plain)).await;
    append(&other, std::slice::from_ref(&full)).await;
    for store in [store, other, fixture.open().await] {
        let read = read(&store, AuditFilter::default()).await;
        assert!(read.iter().all(|record| record.at.as_microsecond() == record.id.at), "{read:?}");
        let entries: Vec<_> = read.into_iter().map(|record| record.entry).collect();
        assert_eq!(entries, [full.clone(), plain.clone()]);
    }
}

/// The newest come first, those of one call too, and ids tell the order.
pub async fn the_newest_come_first(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    append(&store, &numbered(3)).await;
    append(&store, &[entry("anna", "jobs.cancel", "last")]).await;
    let read = read(&store, AuditFilter::default()).await;
    assert_eq!(read.iter().map(|record| &*record.entry.target).collect::<Vec<_>>(), ["last", "2", "1", "0"]);
    assert!(read.windows(2).all(|two| two[0].id > two[1].id && two[0].at >= two[1].at), "{read:?}");
}

/// Each entry comes once over all pages; what is written meanwhile does not move them.
pub async fn pages_follow_each_other(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    append(&store, &numbered(25)).await;
    let mut filter = AuditFilter { limit: 10, ..AuditFilter::default() };
    let first = store.audit(&filter).await.expect("a page");
    assert_eq!((first.entries.len(), first.next), (10, Some(first.entries[9].id)));
    append(&store, &[entry("bob", "queues.pause", "meanwhile")]).await;
    filter.before = first.next;
    let rest = targets(&store, filter).await;
    let expected: Vec<_> = (0..15).rev().map(|n| n.to_string()).collect();
    assert_eq!(rest, expected);
    for limit in [1, 13, 26, 27] {
        let all = targets(&store, AuditFilter { limit, ..AuditFilter::default() }).await;
        assert_eq!(all.len(), 26, "pages of {limit}");
        assert_eq!((&*all[0], &*all[25]), ("meanwhile", "0"));
    }
}

/// Each part of a filter narrows, also together.
pub async fn filters_narrow(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    append(
        &store,
        &[
            entry("anna", "queues.pause", "a"),
            entry("bob", "queues.pause", "b"),
            entry("anna", "queues.resume", "a"),
            entry("anna", "queues.pause", "c"),
        ],
    )
    .await;
    let some = |text: &str| Some(text.to_owned());
    let all = AuditFilter::default;
    for (filter, expected) in [
        (AuditFilter { actor: some("anna"), ..all() }, &["c", "a", "a"][..]),
        (AuditFilter { action: some("queues.pause"), ..all() }, &["c", "b", "a"]),
        (AuditFilter { target: some("a"), ..all() }, &["a", "a"]),
        (AuditFilter { actor: some("anna"), action: some("queues.pause"), ..all() }, &["c", "a"]),
        (AuditFilter { actor: some("bob"), target: some("a"), ..all() }, &[]),
        (AuditFilter { actor: some("an"), ..all() }, &[]),
    ] {
        for limit in [1, 100] {
            let filter = AuditFilter { limit, ..filter.clone() };
            assert_eq!(targets(&store, filter.clone()).await, expected, "{filter:?}");
        }
    }
    let old = read(&store, all()).await;
    eventually("the store's clock goes on", || async {
        append(&store, &[entry("anna", "queues.pause", "late")]).await;
        let newest = store.audit(&AuditFilter { limit: 1, ..all() }).await.expect("a page").entries.remove(0);
        (newest.at > old[0].at).then_some(())
    })
    .await;
    let late = targets(&store, AuditFilter { since: Some(old[0].at), ..all() }).await;
    assert!(late.contains(&"c".to_owned()), "{late:?}");
    let since = Some(read(&store, all()).await[0].at);
    let newest = targets(&store, AuditFilter { since, actor: some("anna"), ..all() }).await;
    assert!(!newest.is_empty() && newest.iter().all(|target| target == "late"), "{newest:?}");
}

/// What cannot be is refused by name.
pub async fn nonsense_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for limit in [0, AuditFilter::MAX_LIMIT + 1] {
        let error = store.audit(&AuditFilter { limit, ..AuditFilter::default() }).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains(&format!("got {limit}")), "{error}");
    }
    let fine = entry("anna", "queues.pause", "mail");
    for bad in [vec![fine.clone(), entry("", "queues.pause", "mail")], vec![fine; AuditEntry::MAX_BATCH + 1]]
    {
        let error = store.append_audit(&bad).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
    }
    assert_eq!(read(&store, AuditFilter::default()).await, [], "all or none");
}

/// An entry is never refused for its length: it is kept, cut.
pub async fn what_is_too_long_is_cut(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let long = "ä\u{10ffff}".repeat(5_000);
    let mut huge = entry(&long, &long, &long).with_via(&*long).with_reason(&*long).with_outcome(&*long);
    (huge.role, huge.request_id, huge.count) = (Some(long.clone()), Some("a\0b".to_owned()), Some(u64::MAX));
    huge.filter = Args::of(&long).ok();
    append(&store, &[huge.clone(), entry("anna", "jobs.edit", "")]).await;
    let read = read(&store, AuditFilter::default()).await;
    assert_eq!(read[0].entry, entry("anna", "jobs.edit", ""));
    assert_eq!(read[1].entry, AuditEntry::storable(std::slice::from_ref(&huge)).expect("storable")[0]);
    let found = AuditFilter { target: Some(read[1].entry.target.clone()), ..AuditFilter::default() };
    assert_eq!(super::audit::read(&store, found).await, read[1..]);
}

/// Entries of many callers are all there.
pub async fn many_write_at_once(fixture: &dyn Fixture) {
    let mut tasks = Vec::new();
    for n in 0..8 {
        let store = fixture.open().await;
        tasks.push(tokio::spawn(async move {
            for m in 0..25 {
                append(&store, &[entry(&format!("actor {n}"), "jobs.retry", &m.to_string())]).await;
            }
        }));
    }
    for task in tasks {
        task.await.expect("writes");
    }
    let store = fixture.open().await;
    let all = read(&store, AuditFilter { limit: 7, ..AuditFilter::default() }).await;
    assert_eq!(all.len(), 200);
    let of_one = AuditFilter { actor: Some("actor 3".to_owned()), ..AuditFilter::default() };
    let expected: Vec<_> = (0..25).rev().map(|m| m.to_string()).collect();
    assert_eq!(targets(&store, of_one).await, expected);
}

/// What is older than the store keeps goes, and only that; jobs have their own time.
pub async fn the_old_are_removed(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    append(&store, &numbered(3)).await;
    let keep_no_jobs = Settings::DEFAULT.with_retention(Duration::ZERO).with_dead_retention(Duration::ZERO);
    maintain_with(&store, keep_no_jobs).await;
    assert_eq!(read(&store, AuditFilter::default()).await.len(), 3);
    eventually("the entries are removed", || async {
        maintain_with(&store, Settings::DEFAULT.with_audit_retention(Duration::ZERO)).await;
        read(&store, AuditFilter::default()).await.is_empty().then_some(())
    })
    .await;
    maintain_with(&store, Settings::DEFAULT).await;
    append(&store, &numbered(1)).await;
    maintain_with(&store, Settings::DEFAULT).await;
    assert_eq!(targets(&store, AuditFilter::default()).await, ["0"]);
}

/// One round removes more than one transaction does.
pub async fn many_go_in_steps(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for _ in 0..12 {
        append(&store, &numbered(AuditEntry::MAX_BATCH)).await;
    }
    assert_eq!(read(&store, AuditFilter { limit: 1_000, ..AuditFilter::default() }).await.len(), 12_000);
    eventually("the entries are removed", || async {
        maintain_with(&store, Settings::DEFAULT.with_audit_retention(Duration::ZERO)).await;
        read(&store, AuditFilter::default()).await.is_empty().then_some(())
    })
    .await;
}
