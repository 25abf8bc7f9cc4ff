//! A fresh store, and one connection to the end, so that whatever plan it cached while the tables were empty is used.
#![allow(dead_code, unreachable_pub)] // each test binary uses its part

use super::cluster::Fixture;
use tokio_postgres::{Client, Row, error::SqlState, types::FromSqlOwned};
use windlass_conformance::steps::LEASE;
use windlass_core::{Claim, Completion, JobSet};

/// Says that every second job of a claim completed: as many ranges, of which the first has the count of all.
pub fn every_second(claim: &Claim) -> Completion {
    let ranges: Vec<_> = claim.jobs.iter().step_by(2).map(|job| (job.id.0, job.id.0)).collect();
    Completion { claim: claim.reference, count: ranges.len() as u32, jobs: JobSet::Ranges(ranges) }
}

pub struct Session {
    pub fixture: Fixture,
    pub client: Client,
}

impl Session {
    pub async fn fresh() -> Self {
        Self::of(Fixture::fresh().await).await
    }

    pub async fn of(fixture: Fixture) -> Self {
        let client = fixture.sql().await;
        Self { fixture, client }
    }

    /// Registers a worker of these queues, an expression of SQL.
    pub async fn register(&self, queues: &str) -> i32 {
        self.value(&format!("SELECT windlass.register('w', {queues}, '{{}}', {})", LEASE.as_secs_f64())).await
    }

    pub async fn run(&self, sql: &str) {
        self.client.batch_execute(&self.fixture.text(sql)).await.expect(sql);
    }

    pub async fn row(&self, sql: &str) -> Row {
        self.client.query_one(&self.fixture.text(sql), &[]).await.expect(sql)
    }

    /// The first column of the one row.
    pub async fn value<T: FromSqlOwned>(&self, sql: &str) -> T {
        self.row(sql).await.get(0)
    }

    /// The code and the message of the server's refusal.
    pub async fn refusal(&self, sql: &str) -> (SqlState, String) {
        let error = self.client.batch_execute(&self.fixture.text(sql)).await.expect_err(sql);
        let error = error.as_db_error().expect("the server's").clone();
        (error.code().clone(), error.message().to_owned())
    }

    /// Asserts that a call touches at most so many pages: its cost, on any machine. The least of a few counts: a first one may also plan.
    pub async fn bounded(&self, when: &str, call: &str, most: i64) {
        self.bounded_in(6, when, call, most).await;
    }

    /// The same with so many tries.
    pub async fn bounded_in(&self, tries: u32, when: &str, call: &str, most: i64) {
        let mut tried = Vec::new();
        for _ in 0..tries {
            let (_, pages) = self.fixture.cost(&self.client, &format!("SELECT * FROM {call}")).await;
            if pages.all() <= most {
                return;
            }
            tried.push(pages);
        }
        let least = tried.iter().min_by_key(|pages| pages.all()).expect("it was tried");
        panic!("{when}: {call} touched {} pages, at most {most} were expected:{least}", least.all());
    }

    /// Asserts the same of a call that is undone each time.
    pub async fn bounded_undone(&self, when: &str, call: &str, most: i64) {
        let pages = self.fixture.least_above(most, &self.client, &format!("SELECT * FROM {call}"), 5).await;
        let all = pages.all();
        assert!(all <= most, "{when}: {call} touched {all} pages, at most {most} were expected:{pages}");
    }
}
