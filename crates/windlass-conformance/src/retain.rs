//! Retention: what is settled and old goes, what is unfinished stays.

use crate::{Fixture, steps::*};
use std::{sync::Arc, time::Duration};
use windlass_core::{Disposition, JobId, JobState, Settings, Settled, Store};

/// Keeps nothing that is settled, and moves on at every chance.
const KEEP_NOTHING: Settings = Settings::DEFAULT
    .with_retention(Duration::ZERO)
    .with_dead_retention(Duration::ZERO)
    .with_segment_bytes(1);

/// More rounds of housekeeping than any store has segments.
const MANY_ROTATIONS: usize = 12;

async fn maintain_until_gone(store: &Arc<dyn Store>, ids: &[JobId]) {
    eventually("the settled jobs are removed", || async {
        maintain_with(store, KEEP_NOTHING).await;
        for &id in ids {
            if store.job(id).await.expect("look up").is_some() {
                return None;
            }
        }
        Some(())
    })
    .await;
}

/// Completed, discarded and cancelled jobs disappear once they are past retention.
pub async fn what_is_settled_disappears(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 30).await;
    store.cancel(&ids[20..]).await.expect("cancel");
    let worker = worker_on(&store).await;
    for (n, held) in worker.take(20).await.iter().enumerate() {
        let settled = match n % 2 {
            0 => worker.complete(held).await,
            _ => worker.except(held, Disposition::Discard { error: "bad".into(), failed: true }).await,
        };
        assert_eq!(settled, Settled::Accepted);
    }
    maintain_until_gone(&store, &ids).await;
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.completed, stats.discarded, stats.cancelled, stats.available), (0, 0, 0, 0));
    worker.finds_nothing().await;
}

/// Jobs stay readable for their retention; the dead have one of their own.
pub async fn what_is_young_stays(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 2).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(2).await;
    worker.complete(&jobs[0]).await;
    worker.except(&jobs[1], Disposition::Discard { error: "bad".into(), failed: true }).await;
    let keep_all = Settings::DEFAULT.with_retention(LATER).with_dead_retention(LATER).with_segment_bytes(1);
    for _ in 0..MANY_ROTATIONS {
        maintain_with(&store, keep_all).await;
    }
    assert_eq!(state(&store, ids[0]).await, JobState::Completed);
    assert_eq!(state(&store, ids[1]).await, JobState::Discarded);

    let keep_dead = keep_all.with_retention(Duration::ZERO);
    eventually("the completed job is removed", || async {
        maintain_with(&store, keep_dead).await;
        store.job(ids[0]).await.expect("look up").is_none().then_some(())
    })
    .await;
    let dead = record(&store, ids[1]).await;
    assert_eq!((dead.state, dead.errors.len()), (JobState::Discarded, 1));
}

/// Unfinished jobs survive any number of rotations, each in its state, with nothing changed.
pub async fn what_is_unfinished_survives(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let retryable = enqueue(&store, job()).await;
    let running = enqueue(&store, job()).await;
    let without_handler = enqueue(&store, job()).await;
    let jobs = worker.take(3).await;
    let retry = Disposition::Retry { delay: LATER, error: "no".into() };
    worker.settle(vec![], vec![jobs[0].exception(retry), jobs[2].exception(Disposition::NoHandler)]).await;
    let scheduled = enqueue(&store, job().with_delay(LATER)).await;
    let available = enqueue(&store, job().with_priority(9)).await;
    let expected = [
        (retryable, JobState::Retryable),
        (running, JobState::Running),
        (without_handler, JobState::Available),
        (scheduled, JobState::Scheduled),
        (available, JobState::Available),
    ];
    let busy = super::steps::worker(&store, &["busy"], &[], LEASE).await;
    for round in 0..MANY_ROTATIONS {
        let passing: Vec<_> = jobs_of("busy", 5);
        store.enqueue(&passing).await.expect("enqueue");
        assert_eq!(busy.drain(10).await.len(), 5);
        maintain_with(&store, KEEP_NOTHING).await;
        for (id, expected) in expected {
            assert_eq!(state(&store, id).await, expected, "job {id} after round {round}");
        }
    }
    assert_eq!(errors_of(&store, retryable).await, [(1, "no".to_owned())]);
    assert_eq!(worker.complete(&jobs[1]).await, Settled::Accepted);
    store.retry(&[retryable]).await.expect("retry");
    let mut done = worker.drain(10).await;
    done.sort_unstable();
    assert_eq!(done, [retryable, without_handler, available]);
    maintain_until_gone(&store, &[retryable, running, without_handler, available]).await;
    assert_eq!(state(&store, scheduled).await, JobState::Scheduled);
}

fn jobs_of(queue: &'static str, count: usize) -> Vec<windlass_core::NewJob> {
    jobs(count).into_iter().map(|job| job.with_queue(queue)).collect()
}

/// Running jobs can still be settled after many rotations, in whole and in part, exactly once.
pub async fn running_jobs_settle_after_many_rotations(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let mut slow = Vec::new();
    for _ in 0..MANY_ROTATIONS {
        enqueue_jobs(&store, 4).await;
        let jobs = worker.take(4).await;
        worker.complete(&jobs[0]).await;
        slow.extend(jobs.into_iter().skip(1));
        maintain_with(&store, KEEP_NOTHING).await;
    }
    for (n, held) in slow.iter().enumerate() {
        let settled = match n % 3 {
            0 => worker.complete(held).await,
            1 => worker.except(held, Disposition::Return).await,
            _ => worker.except(held, Disposition::Retry { delay: LATER, error: "no".into() }).await,
        };
        assert_eq!(settled, Settled::Accepted, "job {}", held.job.id);
    }
    let returned: Vec<_> = slow.iter().skip(1).step_by(3).map(|held| held.job.id).collect();
    let mut done = worker.drain(10).await;
    done.sort_unstable();
    assert_eq!(done, returned);
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.running, stats.available, stats.retryable), (0, 0, MANY_ROTATIONS as u64));
}

/// Jobs of a dead worker come back though their segment was given up meanwhile.
pub async fn a_rescue_finds_jobs_of_old_segments(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 10).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    dying.take(6).await;
    let busy = worker(&store, &["busy"], &[], LEASE).await;
    for _ in 0..MANY_ROTATIONS {
        store.enqueue(&jobs_of("busy", 5)).await.expect("enqueue");
        busy.drain(10).await;
        maintain_with(&store, KEEP_NOTHING).await;
    }
    assert_eq!(rescue_of(&store, &dying, MAX_CRASHES).await.rescued, 6);
    let mut done = worker_on(&store).await.drain(4).await;
    done.sort_unstable();
    assert_eq!(done, ids);
}

/// The order of a lane survives housekeeping in the middle of a backlog.
pub async fn a_backlog_survives_in_order(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 200).await;
    let worker = worker_on(&store).await;
    let mut done = Vec::new();
    while done.len() < 200 {
        let claims = worker.claim(20).await;
        assert!(!claims.is_empty(), "stuck after {}", done.len());
        worker.complete_claims(&claims).await;
        done.extend(super::steps::ids(&claims));
        maintain_with(&store, KEEP_NOTHING).await;
    }
    let mut sorted = done.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, ids, "each job once");
    worker.finds_nothing().await;
}
