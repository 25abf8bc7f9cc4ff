use crate::{
    deadline::{Deadline, Guard, Patience},
    error::{Effect, pool_error, store_error},
    options::PostgresOptions,
    server::{Server, TlsStream},
    session::{CommitWatch, Sessions},
};
use deadpool::managed::{Object, Pool, PoolError, QueueMode};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tokio_postgres::{
    Row, Socket,
    types::{ToSql, Type},
};
use windlass_core::{Error, ErrorKind, Result};

/// A parameter with its type, so that a statement needs no round trip to be described.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// The connections of one store, a pool per role: a flood of enqueues never keeps a heartbeat or a
/// settlement waiting, and each server process plans the few statements of its role once (the first claim
/// on a new connection takes 5 ms, the next 0.15 ms).
pub(crate) struct Connections {
    server: Server,
    pooler: bool,
    clients: Pool<Sessions>,
    claims: Pool<Sessions>,
    settles: Pool<Sessions>,
    upkeep: Pool<Sessions>,
    call_timeout: Duration,
    /// How many connections went silent.
    doubts: Arc<AtomicU64>,
    doubted: Notify,
}

/// The most connections of each role of a worker. One does for a worker; two let several share a store.
const ROLE_CONNECTIONS: usize = 2;

impl Connections {
    pub(crate) fn new(server: Server, options: &PostgresOptions) -> Result<Self> {
        let (pooler, doubts) = (options.transaction_pooler, Arc::<AtomicU64>::default());
        let pool = |size| {
            let sessions = Sessions { server: server.clone(), pooler, doubts: Arc::clone(&doubts) };
            pool(sessions, size)
        };
        Ok(Self {
            clients: pool(options.pool_size.max(1))?,
            claims: pool(ROLE_CONNECTIONS)?,
            settles: pool(ROLE_CONNECTIONS)?,
            upkeep: pool(ROLE_CONNECTIONS)?,
            call_timeout: options.call_timeout,
            doubts,
            doubted: Notify::new(),
            pooler,
            server,
        })
    }

    /// For a short call of a client; `what` names it in messages.
    pub(crate) async fn client(self: &Arc<Self>, what: &'static str) -> Result<Connection> {
        self.get(&self.clients, what, Patience::Call).await
    }

    /// For a call of a client that carries so many jobs.
    pub(crate) async fn client_for(self: &Arc<Self>, what: &'static str, jobs: usize) -> Result<Connection> {
        self.get(&self.clients, what, Patience::Batch(jobs)).await
    }

    pub(crate) async fn claims(self: &Arc<Self>) -> Result<Connection> {
        self.get(&self.claims, "claim", Patience::Call).await
    }

    /// For settlements and whatever else of a worker is short and cannot wait: its heartbeats, above all.
    pub(crate) async fn settles(self: &Arc<Self>, what: &'static str) -> Result<Connection> {
        self.get(&self.settles, what, Patience::Call).await
    }

    /// For registration, rescue, promotion and housekeeping, some of which takes minutes.
    pub(crate) async fn upkeep(self: &Arc<Self>, what: &'static str) -> Result<Connection> {
        self.get(&self.upkeep, what, Patience::Call).await
    }

    async fn get(
        self: &Arc<Self>,
        pool: &Pool<Sessions>,
        what: &'static str,
        patience: Patience,
    ) -> Result<Connection> {
        let limit = patience.limit(self.call_timeout);
        let object = match Deadline::after(limit).await_on(pin!(pool.get())).await {
            Ok(Ok(object)) => object,
            Ok(Err(PoolError::Backend(cause))) => return Err(self.server.error(cause)),
            Ok(Err(other)) => return Err(pool_error(other, self.server.name())),
            Err(limit) => return Err(self.none_free(pool, what, limit)),
        };
        // The time begins anew: who got a connection late must not take it for a silent one.
        let deadline = Deadline::after(limit);
        let guard = Guard { line: Arc::clone(&object.line), home: Arc::clone(self), what, deadline };
        Ok(Connection { object, guard })
    }

    fn none_free(&self, pool: &Pool<Sessions>, what: &str, limit: Duration) -> Error {
        let (status, server) = (pool.status(), self.server.name());
        let why = if status.size >= status.max_size {
            format!("all {} are in use; raise pool_size, or call less at once", status.max_size)
        } else {
            "the server does not finish the login; check it and the network".to_owned()
        };
        Error::new(
            ErrorKind::Unavailable,
            format!("{what}: no connection to PostgreSQL at {server} within {limit:?}: {why}"),
        )
    }

    /// How many connections calls of clients may have.
    pub(crate) fn clients(&self) -> usize {
        self.clients.status().max_size
    }

    pub(crate) fn doubts(&self) -> u64 {
        self.doubts.load(Ordering::Acquire)
    }

    /// A connection went silent, and what went silent is seldom alone: every other has to prove itself.
    /// Those that rest are replaced, those in use have to answer within their own deadline.
    pub(crate) fn doubt_all(&self) {
        let doubts = self.doubts.fetch_add(1, Ordering::AcqRel) + 1;
        for pool in self.pools() {
            pool.retain(|session, _| session.line.is_proven(doubts));
        }
        self.doubted.notify_waiters();
    }

    /// Ends when the next connection goes silent.
    pub(crate) async fn doubted(&self) {
        self.doubted.notified().await;
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// A connection outside the pools, for LISTEN.
    pub(crate) async fn dedicated(
        &self,
    ) -> Result<(tokio_postgres::Client, tokio_postgres::Connection<Socket, TlsStream>)> {
        self.server.connect().await.map_err(|cause| self.server.error(cause))
    }

    pub(crate) fn is_pooled_by_transaction(&self) -> bool {
        self.pooler
    }

    pub(crate) fn close(&self) {
        for pool in self.pools() {
            pool.close();
        }
    }

    fn pools(&self) -> [&Pool<Sessions>; 4] {
        [&self.clients, &self.claims, &self.settles, &self.upkeep]
    }
}

fn pool(sessions: Sessions, size: usize) -> Result<Pool<Sessions>> {
    Pool::builder(sessions).max_size(size).queue_mode(QueueMode::Lifo).build().map_err(|cause| {
        Error::new(ErrorKind::Internal, format!("cannot build the connection pool: {cause}"))
    })
}

/// What the pools set for a session, for one transaction: all that a transaction-mode pooler lets through.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

/// One borrowed connection. Statements are prepared once per connection, except behind a
/// transaction-mode pooler, which may hand each statement to another server process.
pub(crate) struct Connection {
    pub(crate) object: Object<Sessions>,
    pub(crate) guard: Guard,
}

impl Connection {
    /// Runs one statement as its own transaction.
    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>], effect: Effect) -> Result<Vec<Row>> {
        let fail = |cause| store_error(cause, effect);
        if self.guard.home.is_pooled_by_transaction() {
            return self.guard.run(effect, pin!(self.query_unprepared(sql, params, effect))).await;
        }
        let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        let prepared = pin!(async {
            let prepared = self.object.prepare_typed_cached(sql, &types).await;
            prepared.map_err(|cause| store_error(cause, Effect::Repeatable))
        });
        let statement = self.guard.run(Effect::Repeatable, prepared).await?;
        let answered = pin!(async { self.object.query(&statement, &values).await.map_err(fail) });
        self.guard.run(effect, answered).await
    }

    /// The three messages go out together: one round trip, and all or none of them is sent.
    async fn query_unprepared(&self, sql: &str, params: &[Param<'_>], effect: Effect) -> Result<Vec<Row>> {
        let (began, rows, ended) = tokio::join!(
            biased;
            self.object.batch_execute(BEGIN),
            self.object.query_typed(sql, params),
            self.object.batch_execute("COMMIT"),
        );
        let fail = |cause| store_error(cause, effect);
        began.map_err(fail)?;
        let rows = rows.map_err(fail)?;
        ended.map_err(fail)?;
        Ok(rows)
    }

    /// Begins the deadline anew: for the next of several statements that are each worth their own.
    pub(crate) fn extend(&mut self, patience: Patience) {
        self.guard.deadline = Deadline::after(patience.limit(self.guard.home.call_timeout()));
    }

    /// Before a statement that may take long: finds out within a short call's time whether anybody answers.
    pub(crate) async fn begin_long(&mut self, patience: Patience) -> Result<()> {
        let answered = async {
            let answer = self.object.batch_execute("").await;
            answer.map_err(|cause| store_error(cause, Effect::Repeatable))
        };
        self.guard.run(Effect::Repeatable, pin!(answered)).await?;
        self.extend(patience);
        Ok(())
    }

    /// Begin before a write whose acknowledgement must mean that the synchronous standby has it.
    pub(crate) fn watch_commit(&self) -> CommitWatch {
        CommitWatch::begin(&self.object)
    }

    /// Runs one statement that answers exactly one row.
    pub(crate) async fn query_one(&self, sql: &str, params: &[Param<'_>], effect: Effect) -> Result<Row> {
        self.query(sql, params, effect).await?.pop().ok_or_else(|| {
            Error::new(ErrorKind::Internal, "PostgreSQL answered no row where one was expected")
        })
    }
}
