//! A fresh store and a session of SQL on it.

use crate::cluster::Fixture;
use tokio_postgres::{Client, Row, error::SqlState, types::FromSqlOwned};

pub(crate) struct Session {
    pub(crate) fixture: Fixture,
    pub(crate) client: Client,
}

impl Session {
    pub(crate) async fn fresh() -> Self {
        let fixture = Fixture::fresh().await;
        let client = fixture.sql().await;
        Self { fixture, client }
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.client.batch_execute(&self.fixture.text(sql)).await.expect(sql);
    }

    pub(crate) async fn row(&self, sql: &str) -> Row {
        self.client.query_one(&self.fixture.text(sql), &[]).await.expect(sql)
    }

    /// The first column of the one row.
    pub(crate) async fn value<T: FromSqlOwned>(&self, sql: &str) -> T {
        self.row(sql).await.get(0)
    }

    /// The code and the message of the server's refusal.
    pub(crate) async fn refusal(&self, sql: &str) -> (SqlState, String) {
        let error = self.client.batch_execute(&self.fixture.text(sql)).await.expect_err(sql);
        let error = error.as_db_error().expect("the server's").clone();
        (error.code().clone(), error.message().to_owned())
    }
}
