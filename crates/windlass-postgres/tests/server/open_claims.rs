//! Which claims rescue looks at: all that can be open, whatever the clock does, and hardly any other.

use crate::cluster::Fixture;
use std::sync::Arc;
use windlass_conformance::steps::{LEASE, MAX_CRASHES, QUEUE, enqueue_jobs, ids, rescue_of, worker};
use windlass_core::Store;

/// The lease of this worker is over.
const EXPIRE: &str = "UPDATE windlass.worker SET lease = '1 ms'";

#[tokio::test]
async fn a_claim_made_after_the_clock_was_set_back_is_rescued() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let client = fixture.sql().await;
    let all = enqueue_jobs(&store, 3).await;
    let dying = worker(&store, &[QUEUE], &[], LEASE).await;
    dying.complete_claims(&dying.claim(1).await).await;
    let old = ids(&dying.claim(1).await);
    store.heartbeat(dying.id).await.unwrap();
    let new = ids(&dying.claim(1).await);
    assert_eq!([old, new].concat(), all[1..]);
    // What a server whose clock was set back by an hour would have stored.
    let back = "UPDATE windlass.claim SET claimed_at = claimed_at - interval '1 hour' WHERE seq >= 2";
    client.batch_execute(&fixture.text(back)).await.unwrap();
    client.batch_execute(&fixture.text(EXPIRE)).await.unwrap();
    assert_eq!(rescue_of(&store, &dying, MAX_CRASHES).await.rescued, 2);
}

/// The pages that a look at one open claim beside any number of settled ones may touch.
const MOST_PAGES: i64 = 150;

#[tokio::test]
async fn one_open_claim_beside_many_settled_ones_is_found_by_few_pages() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let client = fixture.sql().await;
    enqueue_jobs(&store, 1).await;
    let dying = worker(&store, &[QUEUE], &[], LEASE).await;
    let held = ids(&dying.claim(1).await);
    let history = fixture.text(
        "INSERT INTO windlass.claim (seq, worker_call, lane_id, token, worker_id, job_count, segment, from_snapshot, to_snapshot)
         SELECT n, n, c.lane_id, 1, c.worker_id, 1, 0, c.to_snapshot, c.to_snapshot
         FROM windlass.claim c, generate_series(2, 100001) AS n WHERE c.seq = 1;
         INSERT INTO windlass.settlement (seq, lane_id, worker_id, job_count, segment, completed)
         SELECT c.seq, c.lane_id, c.worker_id, 1, 0, true FROM windlass.claim c WHERE c.seq > 1",
    );
    client.batch_execute(&history).await.unwrap();
    let beat = fixture.text(
        "SELECT windlass.heartbeat($1, 100002, array_agg(lane_id), array_agg(seq)) FROM windlass.claim WHERE seq = 1",
    );
    client.query(&beat, &[&dying.id.0]).await.unwrap();
    let look = format!("SELECT * FROM windlass.open_claims({})", dying.id);
    assert_eq!(fixture.rows_and_pages(&client, &look).await.0, 1);
    let pages = fixture.pages(&client, &look).await;
    println!("{pages} pages");
    assert!(pages <= MOST_PAGES, "a look touched {pages} pages");
    client.batch_execute(&fixture.text(EXPIRE)).await.unwrap();
    assert_eq!(rescue_of(&store, &dying, MAX_CRASHES).await.rescued, held.len() as u64);
}
