//! A finished job is entered in its open claim, and the settler learns of it.

use super::{
    bench::Bench,
    fake::{FakeStore, Handlers},
    in_every_order,
};
use shuttle::future::{block_on, yield_now};
use windlass_core::{JobId, JobState, Outcome};

/// A handler `first`, and one `last` that waits until job 1 is settled: nothing but the settler's wake-up can
/// end that.
fn one_waits_for_the_other(store: &FakeStore) -> Handlers {
    let seen = store.clone();
    Handlers::default().on("first", |_| yield_now()).on("last", move |_| {
        let seen = seen.clone();
        async move { seen.until("job 1 is settled", |model| model.job(JobId(1)).state.is_final()).await }
    })
}

#[test]
fn a_finished_job_wakes_the_settler() {
    in_every_order(|| {
        block_on(async {
            let store = FakeStore::new();
            store.add("q", "first", 1);
            store.add("q", "last", 1);
            let handlers = one_waits_for_the_other(&store);
            let bench = Bench::on(store.clone(), 2, handlers).await;
            bench.claim(2).await;
            store.until("all done", |model| model.all_completed()).await;
            bench.finish().await;
        });
    });
}

#[test]
fn a_claim_that_finishes_while_another_is_half_done_wakes_the_settler() {
    in_every_order(|| {
        block_on(async {
            let store = FakeStore::new();
            store.add("q", "first", 3);
            store.add("q", "last", 1);
            let bench = Bench::on(store.clone(), 3, one_waits_for_the_other(&store)).await;
            bench.claim(2).await;
            bench.claim(2).await;
            store.until("all done", |model| model.all_completed()).await;
            bench.finish().await;
        });
    });
}

#[test]
fn every_outcome_is_settled_once_and_whole_claims_count_right() {
    in_every_order(|| {
        block_on(async {
            let handlers = Handlers::default().on("mixed", |ctx| async move {
                yield_now().await;
                match ctx.id().0 % 4 {
                    0 => Outcome::Cancel("fourth".into()),
                    1 => std::panic::resume_unwind(Box::new("first")),
                    _ => Outcome::Complete(None),
                }
            });
            let bench = Bench::start(2, handlers).await;
            let store = bench.store.clone();
            store.add("q", "mixed", 8);
            bench.claim(3).await;
            bench.claim(5).await;
            store.until("none is held", |model| model.held() == 0).await;
            bench.finish().await;
            let model = store.model();
            assert_eq!((model.count(JobState::Completed), model.count(JobState::Cancelled)), (4, 2));
            assert_eq!(model.count(JobState::Retryable), 2);
        });
    });
}
