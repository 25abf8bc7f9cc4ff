//! The pages that a call touches: its cost, on any machine.
#![allow(dead_code, unreachable_pub)] // each test binary uses its part

use super::cluster::Fixture;
use tokio_postgres::Client;
use windlass_conformance::steps::LEASE;

/// One connection to the end, so that whatever plan it cached while the tables were empty is used.
pub struct Session {
    pub fixture: Fixture,
    pub client: Client,
    pub worker: i32,
}

impl Session {
    pub async fn begin(queues: &str) -> Self {
        let fixture = Fixture::fresh().await;
        let client = fixture.sql().await;
        let register = fixture
            .text(&format!("SELECT windlass.register('w', {queues}, '{{}}', {})", LEASE.as_secs_f64()));
        let worker = client.query_one(&register, &[]).await.unwrap().get(0);
        Self { fixture, client, worker }
    }

    pub async fn run(&self, sql: &str) {
        self.client.batch_execute(&self.fixture.text(sql)).await.expect(sql);
    }

    /// Asserts that a call touches at most so many pages. Whenever somebody makes or changes tables, the next call
    /// also reads the catalogs: the least of a few counts.
    pub async fn bounded(&self, when: &str, call: &str, most: i64) {
        self.bounded_in(6, when, call, most).await;
    }

    /// The same with so many tries.
    pub async fn bounded_in(&self, tries: u32, when: &str, call: &str, most: i64) {
        let mut least = i64::MAX;
        for _ in 0..tries {
            least = least
                .min(self.fixture.rows_and_pages(&self.client, &format!("SELECT * FROM {call}")).await.1);
            if least <= most {
                return;
            }
        }
        panic!("{when}: {call} touched {least} pages, at most {most} were expected");
    }
}
