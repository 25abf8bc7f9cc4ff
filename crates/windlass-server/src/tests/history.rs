use super::site::Site;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use windlass::{Client, History, HistoryRequest, testing};
use windlass_core::{Store, wrap_store};

/// A store with so many counts that they fit into one answer in steps of so much time only. It counts how often it is asked for them, and lets everybody ask
/// before it answers.
struct Counters {
    store: Arc<dyn Store>,
    fits: Duration,
    asked: AtomicUsize,
}

wrap_store! {
    impl JobStore for Counters, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings status configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by events wakeup close]

    async fn history(&self, request: &HistoryRequest) -> windlass::Result<History> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        match request.step >= self.fits {
            true => self.store.history(request).await,
            false => Err(HistoryRequest::too_much()),
        }
    }
}

impl Counters {
    fn new(fits: Duration) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(testing::client().store()), fits, asked: 0.into() })
    }
}

const DAY: Duration = Duration::from_secs(86_400);

fn full(fits: Duration) -> Site {
    Site::of(Client::from_store(Counters::new(fits)), |builder| builder)
}

#[tokio::test]
async fn more_counts_than_an_answer_has_come_in_longer_steps() {
    let month = "/history?last_s=2592000&step_s=21600&by=none";
    let day = full(DAY).get(month).await.is(200);
    assert_eq!(day["step_ms"], 86_400_000);
    let whole = full(HistoryRequest::LONGEST).get(month).await.is(200);
    assert_eq!(whole["step_ms"], 2_592_000_000_u64);
    let answer = full(Duration::MAX).get(month).await.refused(422, "invalid_option");
    assert!(answer.text.contains("more than 100000 counts"), "{}", answer.text);
}

/// Prometheus gets all figures but those that the store refuses.
#[tokio::test]
async fn a_part_that_the_store_refuses_leaves_the_other_figures() {
    let site = full(Duration::MAX);
    let bearer = format!("Bearer {}", site.token(crate::Role::Viewer));
    let answer = site.send_text("GET", "/metrics", &[("authorization", &bearer)], "").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    for figure in ["windlass_schedules{", "windlass_workers{", "windlass_store_bytes"] {
        assert!(answer.text.contains(figure), "{figure} is missing in {}", answer.text);
    }
    assert!(!answer.text.contains("windlass_history_lag"), "{}", answer.text);
}

#[tokio::test]
async fn a_page_looks_at_the_counters_once() {
    let counters = Counters::new(Duration::ZERO);
    let site = Site::of(Client::from_store(Arc::<Counters>::clone(&counters)), |builder| builder);
    let hour = "/history?last_s=3600&step_s=60";
    let [sums, queues, worst] = ["&by=none", "&by=queue", "&by=queue_and_kind&outcome=failed&top=6"]
        .map(|more| format!("{hour}{more}"));
    let (overview, sums, queues, worst) =
        tokio::join!(site.get("/overview"), site.get(&sums), site.get(&queues), site.get(&worst));
    for answer in [overview, sums, queues, worst] {
        answer.is(200);
    }
    assert_eq!(counters.asked.load(Ordering::Relaxed), 1);
    site.get(hour).await.is(200);
    assert_eq!(counters.asked.load(Ordering::Relaxed), 2, "who asks later is told what is then");
}
