//! Jobs that were edited where they stand in the log of a keyed lane: a row to be stepped over stays there, and until claims have read it the job comes into that lane
//! in no way.

use crate::{
    cluster::Fixture,
    key_lookahead::{claim_once, keyed},
    keys::{of, work_all},
};
use std::{sync::Arc, time::Duration};
use windlass_conformance::steps::{Held, QUEUE, TestWorker, worker_on};
use windlass_core::{Disposition, EditReply, JobEdit, JobId, KeyLimit, KeyLimitsChange, Store};

/// Rows to be stepped over of jobs that stand in the same lane outside the log.
pub(crate) const IN_TWO_PLACES: &str = "SELECT count(*) FROM windlass.cancelled_in_log s JOIN windlass.waiting w ON w.id = s.job_id AND w.lane_id = s.lane_id";
const TO_STEP_OVER: &str = "SELECT count(*) FROM windlass.cancelled_in_log";

/// A keyed queue of which a claim reads two jobs of each lane. Seven were handed out and came back, the first one last: so they stand in the log of the keyed lane.
struct Returned {
    fixture: Fixture,
    store: Arc<dyn Store>,
    worker: TestWorker,
    ids: Vec<JobId>,
}

impl Returned {
    async fn begin() -> Self {
        let (fixture, store) = keyed(2, KeyLimit::default()).await;
        let worker = worker_on(&store).await;
        let mut queue = Self { fixture, store, worker, ids: Vec::new() };
        queue.limit().await;
        queue.ids = queue.store.enqueue(&of("a", 7)).await.unwrap();
        let held = claim_once(&queue.worker, 100).await.0;
        assert_eq!(held.len(), 7);
        for held in &held[1..] {
            queue.worker.except(held, Disposition::Return).await;
        }
        // It reads two of these; they wait. The one that comes back now is behind the others.
        assert_eq!(claim_once(&queue.worker, 1).await.0.len(), 0);
        queue.worker.except(&held[0], Disposition::Return).await;
        queue
    }

    /// Of one key order matters: so a claim hands out nothing before the log is read, however long that takes.
    async fn limit(&self) {
        let limit = KeyLimit::default().with_concurrency(100);
        let serial = vec![("serial".into(), Some(KeyLimit::serial()))];
        for change in [KeyLimitsChange::Default(limit), KeyLimitsChange::Named(serial)] {
            self.store.limit_keys(QUEUE, &change).await.unwrap();
        }
    }

    async fn unlimit(&self) {
        self.store.limit_keys(QUEUE, &KeyLimitsChange::Off).await.unwrap();
    }

    async fn count(&self, query: &str) -> i64 {
        self.fixture.sql().await.query_one(&self.fixture.text(query), &[]).await.unwrap().get(0)
    }

    async fn edit_the_first(&self) {
        let edit = JobEdit::new().with_max_attempts(5);
        assert_eq!(self.store.edit(&self.ids[..1], &edit).await.unwrap(), [EditReply::Edited]);
        assert_eq!(self.count(TO_STEP_OVER).await, 1);
    }

    /// The first job, edited, as a worker has it that got it while the queue had no limits and somebody had the lock of the keyed lane. After that it has limits again.
    async fn held_from_the_other_lane(&self) -> Held {
        self.edit_the_first().await;
        self.unlimit().await;
        let other = self.fixture.sql().await;
        let cancel = format!("BEGIN; SELECT windlass.cancel({})", self.ids[6]);
        other.batch_execute(&self.fixture.text(&cancel)).await.unwrap();
        let mut held = claim_once(&self.worker, 10).await.0;
        other.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(held.iter().map(|held| held.job.id).collect::<Vec<_>>(), self.ids[..1]);
        self.limit().await;
        held.remove(0)
    }

    /// Claims and completes all. Each comes once, the first as it was edited, and nothing is left to step over.
    async fn all_come(self) {
        let first = "SELECT max_attempts::bigint FROM windlass.jobs WHERE state = 'completed' AND id = ";
        let mut done = work_all(&self.worker, 10).await;
        done.sort_unstable();
        assert_eq!(done, self.ids);
        assert_eq!(self.count(&format!("{first}{}", self.ids[0])).await, 5);
        assert_eq!(self.count(TO_STEP_OVER).await, 0);
    }
}

/// The queue loses its limits before the row is read.
#[tokio::test]
async fn an_edited_job_outlives_the_limits() {
    let queue = Returned::begin().await;
    queue.edit_the_first().await;
    // It reads two jobs more of the keyed lane.
    assert_eq!(claim_once(&queue.worker, 1).await.0.len(), 0);
    queue.unlimit().await;
    queue.all_come().await;
}

/// It is held when the queue gets limits, and then waits for its next attempt.
#[tokio::test]
async fn an_edited_job_that_is_tried_again_waits_elsewhere() {
    let queue = Returned::begin().await;
    let held = queue.held_from_the_other_lane().await;
    let retry = Disposition::Retry { delay: Duration::from_secs(3_600), error: "later".to_owned() };
    queue.worker.except(&held, retry).await;
    assert_eq!(claim_once(&queue.worker, 1).await.0.len(), 0);
    assert_eq!((queue.count(TO_STEP_OVER).await, queue.count(IN_TWO_PLACES).await), (1, 0));
    assert_eq!(queue.count(&format!("SELECT count(windlass.retry({}))", queue.ids[0])).await, 1);
    queue.unlimit().await;
    queue.all_come().await;
}

/// It waits for a worker that knows its kind.
#[tokio::test]
async fn an_edited_job_without_a_handler_waits_elsewhere() {
    let queue = Returned::begin().await;
    let held = queue.held_from_the_other_lane().await;
    queue.worker.except(&held, Disposition::NoHandler).await;
    assert_eq!(claim_once(&queue.worker, 1).await.0.len(), 0);
    assert_eq!((queue.count(TO_STEP_OVER).await, queue.count(IN_TWO_PLACES).await), (1, 0));
    queue.unlimit().await;
    queue.all_come().await;
}

/// While somebody edits what stands in the keyed lane nothing comes into it: which jobs may not is not known yet.
#[tokio::test]
async fn nothing_comes_into_a_lane_that_somebody_edits() {
    let mut queue = Returned::begin().await;
    let (editor, waiting) = (queue.fixture.sql().await, "SELECT count(*) FROM windlass.waiting");
    let edit = format!("BEGIN; SELECT windlass.edit({}, max_attempts => 5)", queue.ids[0]);
    editor.batch_execute(&queue.fixture.text(&edit)).await.unwrap();
    queue.ids.extend(queue.store.enqueue(&of("b", 3)).await.unwrap());
    let before = queue.count(waiting).await;
    assert_eq!(claim_once(&queue.worker, 10).await.0.len(), 0);
    assert_eq!(queue.count(waiting).await, before);
    editor.batch_execute("COMMIT").await.unwrap();
    queue.all_come().await;
}
