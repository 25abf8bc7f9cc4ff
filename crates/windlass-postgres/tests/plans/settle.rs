//! What settles a job touches a bounded number of pages, however many jobs the log holds and however much of the
//! job's claim is settled already.
//!
//! Cost is told by the pages that a call touches, not by time.

use crate::{cluster::Fixture, depth::deep};
use std::sync::Arc;
use windlass_conformance::steps::{Held, TestWorker, worker_on};
use windlass_core::{ClaimRef, Completion, JobSet, Store};

/// The pages that settling one job may touch: index descents of 4 leaves of 3 tables and the rows.
const MOST_PAGES: i64 = 300;

struct Log {
    fixture: Fixture,
    client: tokio_postgres::Client,
    worker: TestWorker,
}

impl Log {
    async fn of(jobs: i64) -> Self {
        let fixture = Fixture::shared().await;
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        let worker = worker_on(&store).await;
        let client = fixture.sql().await;
        let log = Self { fixture, client, worker };
        log.add(jobs).await;
        log
    }

    async fn add(&self, jobs: i64) {
        let sql = self.fixture.text(
            "INSERT INTO windlass.job_0 (lane_id, kind, args)
             SELECT (SELECT windlass.lane_of('q', 0)), 'k', '{}' FROM generate_series(1, $1::bigint)",
        );
        self.client.execute(&sql, &[&jobs]).await.expect("bulk inserts");
    }

    /// Asserts that one call, which is then made, touches at most so many pages.
    async fn touches(&self, most: i64, what: &str, call: &str) {
        let call = format!("SELECT * FROM {call}");
        let pages = self.fixture.least_above(most, &self.client, &call, 5).await;
        self.client.query(&self.fixture.text(&call), &[]).await.expect("settles");
        assert!(pages.all() <= most, "{what} touched {} pages:{pages}", pages.all());
    }

    async fn is_bounded(&self, what: &str, call: &str) {
        self.touches(MOST_PAGES, what, call).await;
    }

    fn settle(&self, claim: ClaimRef, ranges: Option<(i64, i64)>, outcome: Option<(&Held, &str)>) -> String {
        let (lane, seq, token) = parts(claim);
        let (count, ranges) = match ranges {
            Some((low, high)) => ("1".to_owned(), format!("ARRAY[1], ARRAY[{low}], ARRAY[{high}]")),
            None => ("NULL".to_owned(), "'{}', '{}', '{}'".to_owned()),
        };
        let (claims, outcomes) = match outcome {
            None => (
                format!("ARRAY[{lane}], ARRAY[{seq}], ARRAY[{token}], ARRAY[{count}]::integer[], {ranges}"),
                "NULL".to_owned(),
            ),
            Some((held, disposition)) => (
                "'{}', '{}', '{}', '{}', '{}', '{}', '{}'".to_owned(),
                serde_json::json!([{"lane": lane, "seq": seq, "token": token, "job": held.job.id.0,
                    "xid": held.job.position, "disposition": disposition, "delay_ms": 9_000_000, "text": "no",
                    "failed": true, "result": "1"}])
                .to_string(),
            ),
        };
        let outcomes = if outcomes == "NULL" { outcomes } else { format!("'{outcomes}'") };
        format!("windlass.settle({}, {claims}, {outcomes})", self.worker.id)
    }

    fn complete_in(&self, held: &Held) -> String {
        let (lane, seq, token) = parts(held.claim);
        let (id, position) = (held.job.id, held.job.position);
        format!("windlass.complete_in({}, {lane}, {seq}, {token}, {id}, '{position}')", self.worker.id)
    }

    async fn check(&self, when: &str, held: &[Held]) {
        let [first, second, third, fourth, fifth, ..] = held else { panic!("{} jobs", held.len()) };
        let id = |held: &Held| held.job.id.0;
        let say = |what: &str| format!("{what}, {when}");
        self.is_bounded(&say("complete_in"), &self.complete_in(first)).await;
        let range = Some((id(second), id(third)));
        self.is_bounded(&say("a range"), &self.settle(second.claim, range, None)).await;
        self.is_bounded(&say("a range again"), &self.settle(second.claim, range, None)).await;
        let over = Some((id(first), id(first)));
        self.is_bounded(&say("a range of what completed"), &self.settle(first.claim, over, None)).await;
        for (held, disposition) in [(fourth, "retry"), (fifth, "complete"), (fifth, "return")] {
            let call = self.settle(held.claim, None, Some((held, disposition)));
            self.is_bounded(&say(disposition), &call).await;
        }
    }
}

fn parts(claim: ClaimRef) -> (i32, u64, i32) {
    (((claim.0 >> 32) as u32).cast_signed(), claim.1, (claim.0 as u32).cast_signed())
}

/// In one session, so that whatever plan it cached while the tables were empty is used to the end.
#[tokio::test]
async fn settling_a_job_touches_few_pages_whatever_the_log_holds() {
    let log = Log::of(100).await;
    let held = log.worker.take(10).await;
    log.check("an empty log", &held).await;
    log.is_bounded("the rest", &log.settle(held[0].claim, None, None)).await;
    log.add(deep()).await;
    let held = log.worker.take(10).await;
    log.check("a deep log", &held).await;
    let (lane, seq, _) = parts(held[0].claim);
    log.is_bounded("the jobs of a claim", &format!("windlass.claim_jobs({lane}, {seq})")).await;
    log.is_bounded("its unsettled jobs", &format!("windlass.unsettled_jobs({lane}, {seq})")).await;
    log.is_bounded("the rest", &log.settle(held[0].claim, None, None)).await;
    for claim in log.worker.claim(10).await {
        log.is_bounded("a whole claim", &log.settle(claim.reference, None, None)).await;
    }
}

/// A worker that claims jobs one by one for minutes has made so many claims in the segments that are kept.
#[tokio::test]
async fn settling_a_job_touches_few_pages_however_many_claims_its_worker_made() {
    let log = Log::of(100).await;
    let held = log.worker.take(10).await;
    log.check("the first claim", &held).await;
    log.is_bounded("the rest", &log.settle(held[0].claim, None, None)).await;
    let claims = format!(
        "INSERT INTO windlass.claim (seq, lane_id, worker_id, worker_call, token, job_count, segment, from_snapshot, to_snapshot)
         SELECT n, (SELECT windlass.lane_of('other', 0)), {}, 1, 7, 1, 0, '4:4:', '4:4:' FROM generate_series(1, 100000) AS n",
        log.worker.id
    );
    log.client.batch_execute(&log.fixture.text(&claims)).await.expect("inserts claims");
    let held = log.worker.take(10).await;
    log.check("100,000 claims", &held).await;
    log.is_bounded("the rest", &log.settle(held[0].claim, None, None)).await;
}

/// A claim of which every other job is settled by itself: 2,500 settlements.
#[tokio::test]
async fn settling_a_job_touches_few_pages_however_much_of_its_claim_is_settled() {
    let log = Log::of(10_000).await;
    for (size, when) in [(1_000_usize, "500 settlements"), (5_000, "2,500 settlements")] {
        let held = log.worker.take(size).await;
        let claim = held[0].claim;
        let unsettled = {
            let (lane, seq, _) = parts(claim);
            format!("windlass.unsettled_jobs({lane}, {seq})")
        };
        let single = |held: &Held| JobSet::Ranges(vec![(held.job.id.0, held.job.id.0)]);
        for pair in held.chunks(200) {
            let done = pair.iter().step_by(2).map(|held| Completion { claim, jobs: single(held), count: 1 });
            log.worker.settle(done.collect(), vec![]).await;
        }
        let left: Vec<Held> = held.iter().skip(1).step_by(2).cloned().collect();
        // A range is of one job here, or it would reach over what is settled.
        let alone = [&left[100], &left[200], &left[200], &left[300], &left[400]].map(Clone::clone);
        log.check(when, &alone).await;
        let most = 40 * i64::try_from(size).unwrap();
        log.touches(most, &format!("the unsettled jobs of a claim of {size}"), &unsettled).await;
        log.worker.settle(vec![Completion { claim, jobs: JobSet::Rest, count: 1 }], vec![]).await;
    }
}
