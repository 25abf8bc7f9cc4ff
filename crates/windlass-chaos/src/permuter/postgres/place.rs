//! A place where orders run: a schema, a desk for setup and epilogue, and a connection for each session.

use super::{
    calls::{self, At},
    schema::{self, MOST_GATES},
    sessions::Session,
};
use crate::permuter::{
    book::Record,
    call::{Call, Reply, worker},
    round::Desk,
    scenario::{Patch, Scenario},
};
use async_trait::async_trait;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio_postgres::{Client, NoTls, types::Type};
use windlass_core::{JobId, WorkerId};
use windlass_postgres::{PostgresStore, calls::Calls};

/// The most sessions of a scenario.
const SESSIONS: usize = 3;
/// After how many orders the tables are emptied, so that lookups stay as cheap as in a young schema.
const ORDERS_PER_SCHEMA: u64 = 200;
/// A lease that only ends when the setup says so.
const LEASE: Duration = Duration::from_secs(365 * 86_400);

/// Commits need not reach the disk, a deadlock should be found at once, and no query here is worth compiling.
const SETTINGS: &str = "SET synchronous_commit = off; SET deadlock_timeout = '20ms'; SET client_min_messages = error; SET jit = off";

/// Where orders run, one after the other.
pub(crate) struct Place {
    pub(crate) schema: Arc<str>,
    /// Whose calls the sessions run; its own connections are closed.
    pub(crate) store: PostgresStore,
    pub(crate) desk: SqlDesk,
    pub(crate) sessions: Vec<Session>,
    orders: u64,
    inside: bool,
    patches: Vec<Patch>,
}

/// The connection that does setup and epilogue, and opens gates.
pub(crate) struct SqlDesk {
    pub(crate) client: Client,
    store: PostgresStore,
    schema: Arc<str>,
}

impl Place {
    /// Connects and makes a schema of its own.
    pub(crate) async fn make(url: &str, scenario: &Scenario) -> anyhow::Result<Self> {
        let Scenario { inside, ref patches, .. } = *scenario;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema: Arc<str> = format!("p{}_{number}", std::process::id()).into();
        let (client, _) = connect(url).await?;
        let store = schema::create(url, &client, &schema, inside, patches).await?;
        let mut sessions = Vec::new();
        for nth in 0..SESSIONS {
            let (session, pid) = connect(url).await?;
            // Advisory locks are the database's, so the gates of all places have numbers of their own.
            let gates =
                (std::process::id() % 100_000 * 10_000 + number * SESSIONS as u32 + nth as u32) as i32;
            if inside {
                session.batch_execute(&format!("SET permuter.session = '{gates}'")).await?;
                let shut = "SELECT pg_advisory_lock($1, n) FROM generate_series(1, $2) AS n";
                client.query_typed(shut, &[(&gates, Type::INT4), (&MOST_GATES, Type::INT4)]).await?;
            }
            sessions.push(Session::new(Arc::new(session), pid, gates));
        }
        Ok(Self {
            desk: SqlDesk { client, store: store.clone(), schema: Arc::clone(&schema) },
            schema,
            store,
            sessions,
            orders: 0,
            inside,
            patches: patches.clone(),
        })
    }

    /// Whether this schema is what the scenario wants.
    pub(crate) fn fits(&self, scenario: &Scenario) -> bool {
        self.inside == scenario.inside && self.patches == scenario.patches
    }

    /// A queue that no order had before.
    pub(crate) async fn fresh_queue(&mut self) -> anyhow::Result<String> {
        self.orders += 1;
        if self.orders.is_multiple_of(ORDERS_PER_SCHEMA) {
            let empty = "TRUNCATE {schema}.job, {schema}.claim, {schema}.settlement, {schema}.result, {schema}.waiting, {schema}.dead,
                         {schema}.cancelled_in_log, {schema}.moved_claim, {schema}.attempt_error, {schema}.worker, {schema}.lane, {schema}.queue,
                         {schema}.enqueue_key, {schema}.cancel_request, {schema}.unique_key, {schema}.job_report, {schema}.slot, {schema}.schedule,
                         {schema}.key_limit, {schema}.key_turn, {schema}.key_lane, {schema}.key_room, {schema}.key_held, {schema}.key_signal";
            self.desk.client.batch_execute(&schema::render(empty, &self.schema)).await?;
        }
        Ok(format!("q{}", self.orders))
    }

    /// Removes the schema.
    pub(crate) async fn leave(self) -> anyhow::Result<()> {
        let drop = "SET client_min_messages = error; DROP SCHEMA {schema} CASCADE";
        self.desk.client.batch_execute(&schema::render(drop, &self.schema)).await?;
        Ok(())
    }
}

/// A connection and its server process.
async fn connect(url: &str) -> anyhow::Result<(Client, i32)> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute(SETTINGS).await?;
    let pid = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    Ok((client, pid))
}

#[async_trait]
impl Desk for SqlDesk {
    async fn register(&mut self, queue: &str, kinds: &[&str]) -> anyhow::Result<WorkerId> {
        Ok(Calls::new(&self.store, &self.client).register(&worker(queue, kinds, LEASE)).await?)
    }

    async fn perform(&mut self, queue: &str, call: &Call) -> anyhow::Result<Reply> {
        let Self { client, store, schema } = &*self;
        let at = At { client, store, schema, queue };
        // Several statements, which belong together.
        if !matches!(call, Call::Unique { .. } | Call::Keyed { .. }) {
            return Ok(calls::perform(at, call, None).await);
        }
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let reply = calls::perform(at, call, None).await;
        client.batch_execute(if reply.is_done() { "COMMIT" } else { "ROLLBACK" }).await?;
        Ok(reply)
    }

    async fn records(&mut self, ids: &[JobId]) -> anyhow::Result<Vec<Record>> {
        calls::records(&self.client, &self.store, ids).await
    }

    async fn inspect(&mut self, queue: &str, ids: &[JobId]) -> anyhow::Result<Vec<String>> {
        let mut wrong = calls::inspect(&self.client, &self.schema, queue).await?;
        wrong.extend(calls::stuck_keys(&self.client, &self.schema, ids).await?);
        Ok(wrong)
    }
}
