//! Reading a page of events touches pages for what it tells, however much happened before and however much is ahead.
//!
//! Cost is told by the pages that a call touches, not by time.

use crate::{depth::deep, drain::drain, session::Session};
use std::sync::Arc;
use windlass_conformance::steps::{TestWorker, worker_on};
use windlass_core::Store;

/// The pages that a call may touch besides, once its plans are made: the cursor, the lanes, descents of seven indexes in four segments each.
const OF_A_CALL: i64 = 800;
/// And for each event: its row, its claim, its job, and what says whether the job was settled otherwise.
const OF_AN_EVENT: i64 = 25;

/// A store whose events are read.
struct Events(Session);

impl Events {
    /// The cursor behind a page, and whether there is more.
    async fn page(&self, cursor: &str, most: i64) -> (String, bool) {
        let sql = format!("SELECT cursor, more FROM windlass.events('{cursor}', {most}) WHERE event IS NULL");
        let row = self.0.row(&sql).await;
        (row.get(0), row.get(1))
    }

    /// Asserts that reading a page of so many events touches few pages of the store.
    async fn bounded(&self, when: &str, cursor: &str, most: i64) {
        let when = format!("{when}, a page of {most} from {cursor}");
        let page = format!("windlass.events('{cursor}', {most})");
        self.0.bounded_undone(&when, &page, OF_A_CALL + most * OF_AN_EVENT).await;
    }

    /// Enqueues, claims of thousands and of one, completions and failures, one after the other.
    async fn fill(&self, worker: &TestWorker, jobs: i64) {
        self.0.run("SET synchronous_commit = off").await;
        let append = |count: i64| {
            format!(
                "INSERT INTO windlass.job_0 (lane_id, kind, args) SELECT (SELECT windlass.lane_of('q', 0)), 'k', '{{}}' FROM generate_series(1, {count})"
            )
        };
        self.0.run(&append(jobs)).await;
        drain(&self.0.fixture, &self.0.client, worker.id).await;
        self.0.run(&append(500)).await;
        for held in worker.take(500).await {
            worker.complete(&held).await;
        }
        self.0.run(&append(500)).await;
        let ids = "SELECT id FROM windlass.job ORDER BY lane_id DESC, xid DESC, id DESC LIMIT 500";
        self.0.run(&format!("SELECT windlass.cancel(id) FROM ({ids}) AS j")).await;
    }

    /// Where a reader is that reads all from the start on, here and there, and at the end.
    async fn way(&self) -> Vec<String> {
        let (mut way, mut more) = (vec!["start".to_owned()], true);
        while more {
            let cursor = way.last().expect("the start");
            let (next, again) = self.page(cursor, deep() / 20).await;
            assert!(next != *cursor || !again, "it does not go on");
            way.push(next);
            more = again;
        }
        assert!(way.len() > 20, "everything was read in {} pages", way.len() - 1);
        way
    }

    /// Pages on this way.
    async fn check(&self, when: &str, way: &[String]) {
        for (nth, cursor) in way.iter().enumerate() {
            for most in [1, 50, 1_000] {
                self.bounded(&format!("{when}, page {nth}"), cursor, most).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_events_costs_what_it_tells() {
    let events = Events(Session::fresh().await);
    let session = &events.0;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    let worker = worker_on(&store).await;
    session.run("SELECT windlass.lane_of('q', 0)").await;
    // Plans are made while the tables are empty.
    for most in [1, 1_000] {
        events.page("now", most).await;
        events.page("start", most).await;
    }
    events.fill(&worker, deep()).await;
    let way = events.way().await;
    for setting in ["random_page_cost = 4", "random_page_cost = 1.1"] {
        session.run(&format!("SET {setting}")).await;
        events.check("no statistics", &way).await;
    }
    session.run("ANALYZE windlass.job, windlass.claim, windlass.settlement, windlass.event").await;
    events.check("analysed", &way).await;
}
