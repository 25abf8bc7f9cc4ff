//! User code that panics outside its handler's future costs an attempt, never a slot.

use crate::fake::{FakeStore, config};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::Barrier;
use windlass_core::{JobId, JobState, Outcome, RetryPolicy};
use windlass_runtime::{Context, Dispatch, Handler, HandlerFuture, WorkerEngine};

const CONCURRENCY: usize = 4;

/// A handler map with a kind for each of the methods that may panic, and `meet`, whose jobs end when
/// [`CONCURRENCY`] of them run at the same time.
struct Panicking {
    meeting: Arc<Barrier>,
    found: AtomicU32,
}

enum Which {
    Meet(Arc<Barrier>),
    RetryPolicy,
    Timeout,
}

impl Handler for Which {
    fn call(&self, _: bytes::Bytes, _: Context) -> HandlerFuture {
        match self {
            Self::Meet(meeting) => {
                let meeting = Arc::clone(meeting);
                Box::pin(async move {
                    meeting.wait().await;
                    Outcome::Complete(None)
                })
            }
            _ => Box::pin(async { Outcome::Retry { after: None, error: "failed itself".into() } }),
        }
    }

    fn retry_policy(&self) -> Option<&RetryPolicy> {
        match self {
            Self::Meet(_) | Self::Timeout => None,
            Self::RetryPolicy => panic!("in retry_policy"),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Meet(_) | Self::RetryPolicy => None,
            Self::Timeout => panic!("in timeout"),
        }
    }
}

impl Dispatch for Panicking {
    fn kinds(&self) -> Vec<String> {
        Vec::new()
    }

    fn find(&self, kind: &str) -> Option<Arc<dyn Handler>> {
        Some(Arc::new(match kind {
            "meet" => Which::Meet(Arc::clone(&self.meeting)),
            "retry_policy" => Which::RetryPolicy,
            "timeout" => Which::Timeout,
            kind => panic!("in {kind} for the {}. time", self.found.fetch_add(1, Ordering::SeqCst)),
        }))
    }
}

#[tokio::test]
async fn a_handler_map_that_panics_costs_attempts_and_no_slot() {
    let store = FakeStore::new();
    let kinds = ["find", "retry_policy", "timeout"];
    let panicking: Vec<Vec<JobId>> = kinds.iter().map(|kind| store.add("q", kind, CONCURRENCY)).collect();
    let dispatch = Panicking { meeting: Arc::new(Barrier::new(CONCURRENCY)), found: AtomicU32::new(0) };
    let engine = WorkerEngine::start(store.shared(), config(CONCURRENCY), Arc::new(dispatch)).await.unwrap();
    store.until("all are settled", |model| model.held() == 0 && model.count(JobState::Available) == 0).await;
    for (jobs, words) in panicking.iter().zip(["in find", "failed itself", "in timeout"]) {
        for job in jobs {
            let errors = store.model().errors(*job);
            assert!(errors.len() == 1 && errors[0].contains(words), "{words}: {errors:?}");
        }
    }
    store.add("q", "meet", CONCURRENCY);
    store.until("every slot is there", |model| model.count(JobState::Completed) == CONCURRENCY).await;
    assert_eq!(engine.stats().running, 0);
    engine.shutdown().await;
}
