//! A page of the audit log costs what it has, and forgetting what it removes, however many entries there are.
//!
//! Cost is told by the pages that a call touches, not by time.

use crate::cluster::Fixture;
use windlass_core::{AuditFilter, AuditStore, JobStore, Settings};

/// 10^6 entries of a year: half of them by one actor, the others by 1,000; each on a target of its own.
const FILL: &str = "SET synchronous_commit = off;
    INSERT INTO windlass.audit_entry (at, actor, via, action, target, outcome)
    SELECT now() - (1000001 - n) * interval '30 seconds', CASE WHEN n % 2 = 0 THEN 'ci' ELSE 'actor ' || n % 2000 END, 'bearer',
           CASE WHEN n % 100000 = 1 THEN 'rare' ELSE 'jobs.cancel' END, '/jobs/' || n || '/cancel', 'done'
    FROM generate_series(1, 1000000) AS n;
    VACUUM windlass.audit_entry";

fn page(parts: &str) -> String {
    let [mut actor, mut action, mut target, mut since] = ["NULL"; 4].map(str::to_owned);
    for part in parts.split(", ").filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once(' ').expect("a name and a value");
        match name {
            "actor" => actor = value.to_owned(),
            "action" => action = value.to_owned(),
            "target" => target = value.to_owned(),
            _ => since = value.to_owned(),
        }
    }
    format!("SELECT * FROM windlass.audit_page({actor}, {action}, {target}, {since}, NULL, NULL, 51)")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_forgetting_touch_few_pages() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let (store, forget) = (fixture.store().await, "SELECT windlass.forget_audit(100)");
    // Whatever plan was made while the table was empty is used to the end.
    client.batch_execute(&fixture.text(forget)).await.unwrap();
    client.batch_execute(&fixture.text(&page(""))).await.unwrap();
    for statement in FILL.split_inclusive(';') {
        client.batch_execute(&fixture.text(statement)).await.unwrap();
    }
    for (parts, rows, most) in [
        ("", 51..=51, 50),
        ("actor 'ci'", 51..=51, 50),
        ("actor 'actor 77'", 51..=51, 200),
        ("actor 'nobody'", 0..=0, 50),
        ("action 'rare'", 10..=10, 100),
        ("target '/jobs/500000/cancel'", 1..=1, 50),
        ("target '/jobs/500000/cancel', actor 'nobody'", 0..=0, 50),
        ("since now() - interval '10 minutes'", 10..=20, 50),
        ("actor 'actor 77', since now() - interval '10 minutes'", 0..=0, 50),
        // Half a million entries of which none fits: a look at 10,000 of them, and where to go on.
        ("actor 'ci', action 'rare'", 1..=1, 2_000),
    ] {
        let (found, _) = fixture.rows_and_pages(&client, &page(parts)).await;
        assert!(rows.contains(&found), "{found} entries of {parts:?}");
        let pages = fixture.pages(&client, &page(parts)).await;
        assert!(pages < most, "{pages} pages for {found} entries of {parts:?}");
    }
    // A year is younger than what is kept, and there are just as many as are kept.
    let idle = fixture.pages(&client, forget).await;
    assert!(idle < 50, "{idle} pages though nothing is past what is kept");
    client.batch_execute(&fixture.text("SELECT windlass.configure_audit(most => 999900)")).await.unwrap();
    let by_count = fixture.pages(&client, forget).await;
    assert!(by_count < 100 * 15, "{by_count} pages for 100 entries that are too many");
    let day_less = Settings::DEFAULT.audit_retention - std::time::Duration::from_secs(53 * 86_400);
    store.configure(&Settings::DEFAULT.with_audit_retention(day_less)).await.expect("configure");
    let by_age = fixture.pages(&client, forget).await;
    assert!(by_age < 100 * 15, "{by_age} pages for 100 entries that are too old");
}

/// Looks that found nothing lead on to what there is; and so do those that ended just where something was.
#[tokio::test]
async fn what_is_rare_is_found_page_by_page() {
    for (rare, expected) in [("1", vec![0, 0, 1]), ("1, 15001", vec![1, 0, 1])] {
        let fixture = Fixture::shared().await;
        let client = fixture.sql().await;
        let fill = format!(
            "INSERT INTO windlass.audit_entry (actor, via, action, target, outcome)
             SELECT 'ci', 'bearer', CASE WHEN n IN ({rare}) THEN 'rare' ELSE 'jobs.cancel' END, n::text, 'done' FROM generate_series(1, 25000) AS n"
        );
        client.batch_execute(&fixture.text(&fill)).await.unwrap();
        let store = fixture.store().await;
        let mut filter = AuditFilter {
            actor: Some("ci".into()),
            action: Some("rare".into()),
            limit: 10,
            ..AuditFilter::default()
        };
        let mut sizes = Vec::new();
        loop {
            let page = store.audit(&filter).await.expect("a page");
            sizes.push(page.entries.len());
            filter.before = page.next;
            if filter.before.is_none() {
                break;
            }
        }
        assert_eq!(sizes, expected);
    }
}
