//! An epoch that moves on while its jobs finish: nothing of it is lost before it is deregistered, and it is.

use super::{
    bench::{Bench, claim},
    fake::Handlers,
    in_every_order,
};
use crate::sync::spawn;
use shuttle::future::{block_on, yield_now};
use std::sync::Arc;
use windlass_core::{JobId, JobState};

fn waiting() -> Handlers {
    Handlers::default().on("waiting", |_| yield_now())
}

#[test]
fn an_epoch_that_drains_is_deregistered_after_its_last_settlement() {
    in_every_order(|| {
        block_on(async {
            let bench = Bench::start(2, waiting()).await;
            let (store, core) = (bench.store.clone(), Arc::clone(&bench.core));
            store.add("q", "waiting", 3);
            bench.claim(2).await;
            bench.claim(1).await;
            core.drain(&bench.epoch);
            store.until("deregistered", |model| !model.deregistered.is_empty()).await;
            {
                let model = store.model();
                assert!(model.all_completed());
                assert!((1..=3).all(|id| model.returns(JobId(id)) == 0));
            }
            bench.finish().await;
        });
    });
}

#[test]
fn a_lost_epoch_drops_its_results_and_ends() {
    in_every_order(|| {
        block_on(async {
            let bench = Bench::start(2, waiting()).await;
            let (store, core, epoch) =
                (bench.store.clone(), Arc::clone(&bench.core), Arc::clone(&bench.epoch));
            store.add("q", "waiting", 4);
            bench.claim(2).await;
            let loser = spawn({
                let (store, core, epoch) = (store.clone(), Arc::clone(&core), Arc::clone(&epoch));
                async move {
                    store.model().end_lease(epoch.worker());
                    core.lose(&epoch);
                }
            });
            // A claim may be under way meanwhile, or find out by itself.
            bench.claim(2).await;
            loser.await.expect("lost");
            store.until("deregistered", |model| !model.deregistered.is_empty()).await;
            assert_eq!(store.model().held(), 0);
            // Its successor does the rest.
            let next = core.register().await.expect("register");
            claim(&core, &next, 4).await;
            store.until("all done", |model| model.all_completed()).await;
            bench.finish().await;
            let settled_by =
                |model: &super::fake::Model| model.settles.iter().all(|settle| settle.exceptions.is_empty());
            assert!(settled_by(&store.model()));
            assert_eq!(store.model().count(JobState::Completed), 4);
        });
    });
}
