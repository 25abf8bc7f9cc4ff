//! A worker that died with a job in its hands, the same over every store.

use std::time::Duration;
use windlass::{Client, JobId};
use windlass_core::{ClaimRequest, QueueDemand, WorkerId, WorkerSpec};

const LEASE: Duration = Duration::from_millis(1_500);

/// It holds this job, the only one of the default queue.
pub(crate) async fn holds(client: &Client, id: JobId) -> WorkerId {
    let dying = WorkerSpec {
        name: "dying".to_owned(),
        queues: vec!["default".to_owned()],
        kinds: Vec::new(),
        lease: LEASE,
        program: Default::default(),
    };
    let dying = client.store().register(&dying).await.unwrap().worker;
    let queues = vec![QueueDemand::new("default", 1)];
    let held = client.store().claim(&ClaimRequest { worker: dying, queues }).await.unwrap();
    assert_eq!(held.claims[0].jobs[0].id, id);
    dying
}

/// Until its lease is over.
pub(crate) async fn dies() {
    tokio::time::sleep(LEASE + Duration::from_millis(100)).await;
}
