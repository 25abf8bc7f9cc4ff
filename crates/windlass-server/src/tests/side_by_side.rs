use super::site::Site;
use crate::{
    Role::{self, Admin, Viewer},
    side_by_side::AT_ONCE,
};
use serde_json::Value;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use windlass::{Args, Client, Context, JobId, JobRecord, NewJob, Outcome, RawJob, Worker, testing};
use windlass_core::{Store, wrap_store};

/// More than are read at once, and no multiple of it.
const JOBS: usize = 4 * AT_ONCE + 1;

/// A store that counts how many jobs are read at once.
struct Counting {
    store: Arc<dyn Store>,
    reads: AtomicUsize,
    most: AtomicUsize,
}

wrap_store! {
    impl JobStore for Counting, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share jobs any_available coming queues_by history status events wakeup close]

    async fn job(&self, id: JobId) -> windlass_core::Result<Option<JobRecord>> {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(reads, Ordering::Relaxed);
        // The first of some is the last to be answered.
        for _ in 0..id.0 % 7 + 7 {
            tokio::task::yield_now().await;
        }
        self.reads.fetch_sub(1, Ordering::Relaxed);
        self.store.job(id).await
    }
}

/// Jobs of as many kinds that failed for good.
async fn failed(client: &Client) {
    let jobs = (0..JOBS).map(|n| {
        let args = Args::parse("{}").unwrap();
        NewJob::new(format!("kind{n}"), args).with_queue("mail").with_max_attempts(1)
    });
    client.enqueue_many(jobs.collect::<Vec<_>>()).await.unwrap();
    let mut worker = Worker::builder(client).queue("mail", 1);
    for n in 0..JOBS {
        let fail =
            |_: RawJob, _: Context| async { Outcome::Retry { after: None, error: "no such host".into() } };
        worker = worker.handle_kind(format!("kind{n}"), fail);
    }
    let worker = worker.start().await.unwrap();
    worker.until_idle().await.unwrap();
    worker.shutdown().await;
}

#[tokio::test]
async fn jobs_of_a_page_are_read_side_by_side_and_stay_in_order() {
    let store = Arc::clone(testing::client().store());
    let counting = Arc::new(Counting { store: Arc::clone(&store), reads: 0.into(), most: 0.into() });
    let site = Site::of(Client::from_store(Arc::<Counting>::clone(&counting)), |builder| builder);
    let plain = Site::of(Client::from_store(store), |builder| builder);
    failed(&plain.client).await;
    for (role, path, items, least) in [
        (Admin, "/jobs?state=discarded", "items", JOBS),
        (Viewer, "/jobs?state=discarded&error=host", "items", JOBS),
        (Admin, "/events", "events", 2 * JOBS),
        (Admin, "/failures", "items", JOBS),
    ] {
        counting.most.store(0, Ordering::Relaxed);
        let shown = ids(&site, role, path, items).await;
        assert_eq!(counting.most.load(Ordering::Relaxed), AT_ONCE, "{path}");
        assert!(shown.len() >= least, "{path}: {}", shown.len());
        assert_eq!(shown, ids(&plain, role, path, items).await, "{path}");
    }
}

async fn ids(site: &Site, role: Role, path: &str, items: &str) -> Vec<Value> {
    let page = site.ask(role, "GET", path, Value::Null).await.is(200);
    let id = |item: &Value| item.get("id").or(item.get("last_job")).unwrap().clone();
    page[items].as_array().unwrap().iter().map(id).collect()
}
