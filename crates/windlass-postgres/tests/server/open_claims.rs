//! Which claims rescue looks at: all that can be open, whatever the clock does, and hardly any other.

use crate::cluster::Fixture;
use std::sync::Arc;
use windlass_conformance::steps::{LEASE, MAX_CRASHES, QUEUE, enqueue_jobs, ids, rescue_of, worker};
use windlass_core::{Args, Disposition, Exception, Store};

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

/// A million jobs that returned results since the last heartbeat were each looked for, 9 s long.
#[tokio::test]
async fn the_end_of_a_worker_looks_at_what_it_holds_only() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    enqueue_jobs(&store, 30).await;
    let ending = worker(&store, &[QUEUE], &[], LEASE).await;
    for _ in 0..2 {
        let claim = ending.claim(10).await.remove(0);
        let result = || Disposition::Complete { result: Some(Args::parse("1").expect("JSON")) };
        let all = claim.jobs.iter().map(|job| Exception {
            claim: claim.reference,
            job: job.id,
            position: job.position,
            disposition: result(),
        });
        ending.settle(vec![], all.collect()).await;
    }
    let held = ending.claim(10).await.remove(0);
    store.deregister(ending.id).await.expect("ends");
    let client = fixture.sql().await;
    let looked_at = fixture.text("SELECT count(*) FROM windlass.claim k JOIN windlass.worker w ON w.id = k.worker_id
        WHERE k.worker_call >= w.open_from OR (k.lane_id, k.seq) IN (SELECT * FROM unnest(w.open_lanes, w.open_seqs))");
    let looked_at: i64 = client.query_one(&looked_at, &[]).await.expect("counts").get(0);
    assert_eq!(looked_at, 1, "of three claims one is open");
    let next = worker(&store, &[QUEUE], &[], LEASE).await;
    assert_eq!(ids(&next.claim(99).await).len(), held.jobs.len(), "what it held is available");
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
