//! Who acts, in SQL: a setting of the transaction or session, and what it does to the audit log.

use crate::cluster::Fixture;
use tokio_postgres::Client;

/// Each entry: who did what to what.
async fn noted(fixture: &Fixture) -> Vec<String> {
    let all = "SELECT format('%s %s %s %s', actor, action, target, count) FROM windlass.audit ORDER BY id";
    let rows = fixture.sql().await.query(&fixture.text(all), &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0).trim_end().to_owned()).collect()
}

async fn run(fixture: &Fixture, client: &Client, sql: &str) {
    // The setting has the same name in every schema.
    let sql = fixture.text(sql).replace(&format!("{}.actor", fixture.schema), "windlass.actor");
    client.batch_execute(&sql).await.expect(&sql);
}

async fn enqueued(fixture: &Fixture, client: &Client) -> i64 {
    let enqueue = fixture.text("SELECT windlass.enqueue('work', '{}', 'q')");
    client.query_one(&enqueue, &[]).await.unwrap().get(0)
}

/// Every function that changes something, once, with what is noted of it.
fn changes(id: i64, worker: i32) -> Vec<(String, String)> {
    let all = [
        (format!("edit({id}, priority => 5)"), format!("jobs.edit job {id}")),
        (format!("cancel({id})"), format!("jobs.cancel job {id}")),
        (format!("retry({id})"), format!("jobs.retry job {id}")),
        (format!("delete({id})"), format!("jobs.delete job {id}")),
        ("pause('q')".into(), "queues.pause q".into()),
        ("resume('q')".into(), "queues.resume q".into()),
        (format!("drain_worker({worker})"), format!("workers.drain {worker}")),
        ("limit_queue('q', 3)".into(), "queues.limit q".into()),
        ("unlimit_queue('q')".into(), "queues.limit q".into()),
        ("limit_keys('k', 2)".into(), "queues.limit_keys k".into()),
        ("limit_key('k', 'acme', 1)".into(), "queues.limit_key k acme".into()),
        ("unlimit_key('k', 'acme')".into(), "queues.unlimit_key k acme".into()),
        ("unlimit_keys('k')".into(), "queues.unlimit_keys k".into()),
        ("configure(max_crashes => 4::smallint)".into(), "settings.put settings".into()),
        (format!("configure_audit(interval '{id} days')"), "settings.put settings".into()),
        ("set_retention('q', 'cancelled', interval '1 day')".into(), "retention.put q cancelled".into()),
        ("set_schedule('nightly', '@daily', 'work')".into(), "schedules.put nightly".into()),
        ("pause_schedule('nightly')".into(), "schedules.pause nightly".into()),
        ("resume_schedule('nightly')".into(), "schedules.resume nightly".into()),
        ("run_schedule('nightly')".into(), "schedules.run nightly".into()),
        ("remove_schedule('nightly')".into(), "schedules.remove nightly".into()),
    ];
    all.into()
}

/// With an actor each call that changes something is an entry, in its transaction; what changes nothing is none, and nothing is without an actor.
#[tokio::test]
async fn what_is_done_for_somebody_is_noted() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    let add = fixture.text("SELECT windlass.register('w', '{q}', '{}', 3600000)");
    let worker: i32 = client.query_one(&add, &[]).await.unwrap().get(0);
    for (call, _) in changes(enqueued(&fixture, &client).await, worker) {
        run(&fixture, &client, &format!("SELECT windlass.{call}")).await;
    }
    assert_eq!(noted(&fixture).await, [""; 0], "nobody acts");
    let mut expected = Vec::new();
    for (call, entry) in changes(enqueued(&fixture, &client).await, worker) {
        run(
            &fixture,
            &client,
            &format!("BEGIN; SET LOCAL windlass.actor = 'anna'; SELECT windlass.{call}; COMMIT"),
        )
        .await;
        expected.push(format!("anna {entry}"));
    }
    assert_eq!(noted(&fixture).await, expected);
    let nothing = "BEGIN; SET LOCAL windlass.actor = 'anna'; SELECT windlass.cancel(999999), windlass.pause('none'), windlass.drain_worker(9999), \
        windlass.unlimit_queue('q'), windlass.pause_schedule('none'); COMMIT";
    run(&fixture, &client, nothing).await;
    assert_eq!(noted(&fixture).await, expected, "nothing was changed");
}

/// The entry goes the way of the change: with its transaction, and with its savepoint.
#[tokio::test]
async fn an_entry_goes_with_its_change() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    let (kept, given_up) = (enqueued(&fixture, &client).await, enqueued(&fixture, &client).await);
    let begin = "BEGIN; SET LOCAL windlass.actor = 'anna'";
    run(&fixture, &client, &format!("{begin}; SELECT windlass.cancel({kept}); ROLLBACK")).await;
    assert_eq!(noted(&fixture).await, [""; 0]);
    let inside = format!("SAVEPOINT a; SELECT windlass.cancel({given_up}); ROLLBACK TO a");
    run(&fixture, &client, &format!("{begin}; SELECT windlass.cancel({kept}); {inside}; COMMIT")).await;
    assert_eq!(noted(&fixture).await, [format!("anna jobs.cancel job {kept}")]);
    // The setting went with its transaction.
    run(&fixture, &client, &format!("SELECT windlass.cancel({given_up})")).await;
    assert_eq!(noted(&fixture).await.len(), 1);
}

/// A procedure over many jobs is one entry, by the actor of the session, over all its commits.
#[tokio::test]
async fn many_jobs_are_one_entry() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    run(&fixture, &client, "SELECT windlass.enqueue('work', '{}', 'q') FROM generate_series(1, 1200)").await;
    run(&fixture, &client, "SET windlass.actor = 'anna'").await;
    run(&fixture, &client, "CALL windlass.cancel_jobs(queue => 'q')").await;
    assert_eq!(noted(&fixture).await, ["anna jobs.cancel jobs 1200"]);
    run(&fixture, &client, "RESET windlass.actor").await;
    run(&fixture, &client, "CALL windlass.retry_jobs(queue => 'q', most => 3)").await;
    let last = noted(&fixture).await.pop().unwrap();
    assert!(last.ends_with(" jobs.retry jobs 3") && !last.starts_with("anna"), "{last}");
}

/// An edit is noted with what it changed, and args only as changed: they may be secret.
#[tokio::test]
async fn an_edit_is_noted_with_what_it_changed() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    run(&fixture, &client, "SET windlass.actor = 'anna'").await;
    let id = enqueued(&fixture, &client).await;
    let edit = format!("SELECT windlass.edit({id}, priority => 5, args => '{{\"secret\": 1}}')");
    run(&fixture, &client, &edit).await;
    run(
        &fixture,
        &client,
        "CALL windlass.edit_jobs('{\"queue\": \"slow\", \"args\": {\"secret\": 2}}', kind => 'work')",
    )
    .await;
    let text = fixture.text("SELECT filter::jsonb::text FROM windlass.audit ORDER BY id");
    let rows = client.query(&text, &[]).await.unwrap();
    let told: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let of_one = r#"{"edit": {"args": "changed", "priority": 5}}"#;
    let of_many = r#"{"edit": {"args": "changed", "queue": "slow"}, "kind": "work"}"#;
    assert_eq!(told, [of_one, of_many]);
}
