//! What a query costs, on any machine: the pages that it touches.

use super::{CROWD, Fixture};
use std::{collections::BTreeMap, fmt};
use tokio_postgres::Client;

/// How many pages of each table and index were touched. Of the catalogs, which a session reads again whenever somebody anywhere in the cluster makes or
/// changes tables, nothing counts.
#[derive(Default)]
pub struct Pages(BTreeMap<String, i64>);

impl Pages {
    pub fn all(&self) -> i64 {
        self.0.values().sum()
    }

    /// Those of the open transaction of a session: at its end the server forgets what it counted.
    async fn touched(client: &Client) -> Self {
        let sql = "SELECT c.oid::regclass::text, pg_stat_get_xact_blocks_fetched(c.oid) FROM pg_class c
            WHERE c.oid >= 16384 AND pg_stat_get_xact_blocks_fetched(c.oid) > 0";
        let rows = client.query(sql, &[]).await.expect(sql);
        Self(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    fn since(mut self, before: &Self) -> Self {
        for (name, pages) in &before.0 {
            *self.0.entry(name.clone()).or_default() -= pages;
        }
        self
    }
}

/// Where most of them are.
impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut most: Vec<_> = self.0.iter().collect();
        most.sort_by_key(|&(_, pages)| -pages);
        most.iter().take(12).try_for_each(|(name, pages)| write!(f, " {name} {pages}"))
    }
}

impl Fixture {
    /// The rows of a query and the pages that it touches.
    pub async fn rows_and_pages(&self, client: &Client, query: &str) -> (usize, i64) {
        let (rows, pages) = self.cost(client, query).await;
        (rows, pages.all())
    }

    /// The same, by table and index.
    pub async fn cost(&self, client: &Client, query: &str) -> (usize, Pages) {
        client.batch_execute("BEGIN").await.unwrap();
        let cost = self.cost_within(client, query).await;
        client.batch_execute("COMMIT").await.unwrap();
        cost
    }

    /// The pages that a query touches when it is planned: the least of a few runs, each of them undone. The first of a session, and one after a
    /// table was analysed (autovacuum does whenever it likes), may also look at the ends of indexes, to plan.
    pub async fn pages(&self, client: &Client, query: &str) -> i64 {
        self.least(client, query, 5).await.all()
    }

    /// The same of so many runs, by table and index.
    pub async fn least(&self, client: &Client, query: &str, runs: u32) -> Pages {
        self.least_above(-1, client, query, runs).await
    }

    /// The same, until one touches no more than so many: the others would tell nothing.
    pub async fn least_above(&self, enough: i64, client: &Client, query: &str, runs: u32) -> Pages {
        let mut costs = Vec::new();
        while costs.len() < runs as usize && costs.last().is_none_or(|last: &Pages| last.all() > enough) {
            client.batch_execute("BEGIN").await.unwrap();
            costs.push(self.cost_within(client, query).await.1);
            client.batch_execute("ROLLBACK").await.unwrap();
        }
        costs.into_iter().min_by_key(Pages::all).expect("it ran")
    }

    async fn cost_within(&self, client: &Client, query: &str) -> (usize, Pages) {
        let _nobody_else = if self.crowd.is_none() { Some(CROWD.read().await) } else { None };
        let before = Pages::touched(client).await;
        let explain = format!("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {query}");
        let row = client.query_one(&self.text(&explain), &[]).await.expect(query);
        let plan: serde_json::Value = row.get(0);
        // Rows are whole numbers up to PostgreSQL 17 and 11.00 from 18 on.
        let rows = plan[0]["Plan"]["Actual Rows"].as_f64().unwrap_or_else(|| panic!("no rows in {plan}"));
        (rows as usize, Pages::touched(client).await.since(&before))
    }
}
