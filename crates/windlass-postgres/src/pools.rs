use crate::{
    deadline::Deadline,
    error::pool_error,
    options::PostgresOptions,
    server::{Server, TlsStream},
    session::Sessions,
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
use tokio_postgres::Socket;
use windlass_core::{Error, ErrorKind, Result};

/// The connections of one store, a pool per role: a flood of enqueues never keeps a heartbeat or a
/// settlement waiting, and each server process plans the few statements of its role once (the first claim
/// on a new connection takes 5 ms, the next 0.15 ms).
pub(crate) struct Pools {
    server: Server,
    pooler: bool,
    clients: Pool<Sessions>,
    claims: Pool<Sessions>,
    settles: Pool<Sessions>,
    upkeep: Pool<Sessions>,
    reports: Pool<Sessions>,
    call_timeout: Duration,
    /// How often all connections were invalidated. One that answered since then belongs to the current generation.
    generation: Arc<AtomicU64>,
    invalidated: Notify,
}

/// What the connections of a pool are used for.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    Clients,
    Claims,
    Settles,
    Upkeep,
    Reports,
}

/// The most connections of each role of a worker. One does for a worker; two let several share a store.
const ROLE_CONNECTIONS: usize = 2;

impl Pools {
    pub(crate) fn new(server: Server, options: &PostgresOptions) -> Result<Self> {
        let (pooler, generation) = (options.transaction_pooler, Arc::<AtomicU64>::default());
        let pool = |size| {
            let sessions = Sessions { server: server.clone(), pooler, generation: Arc::clone(&generation) };
            pool(sessions, size)
        };
        Ok(Self {
            clients: pool(options.pool_size.max(1))?,
            claims: pool(ROLE_CONNECTIONS)?,
            settles: pool(ROLE_CONNECTIONS)?,
            upkeep: pool(ROLE_CONNECTIONS)?,
            reports: pool(ROLE_CONNECTIONS)?,
            call_timeout: options.call_timeout,
            generation,
            invalidated: Notify::new(),
            pooler,
            server,
        })
    }

    /// Takes a connection out of a pool; `what` names the call in messages.
    pub(crate) async fn take(&self, role: Role, what: &str, limit: Duration) -> Result<Object<Sessions>> {
        let pool = match role {
            Role::Clients => &self.clients,
            Role::Claims => &self.claims,
            Role::Settles => &self.settles,
            Role::Upkeep => &self.upkeep,
            Role::Reports => &self.reports,
        };
        match Deadline::after(limit).await_on(pin!(pool.get())).await {
            Ok(Ok(object)) => Ok(object),
            Ok(Err(PoolError::Backend(cause))) => Err(self.server.error(cause)),
            Ok(Err(other)) => Err(pool_error(other, self.server.name())),
            Err(limit) => Err(self.none_free(pool, what, limit)),
        }
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

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Begins a new generation. A connection went silent, and when one does, others often did too: from now on each
    /// has to answer before it counts as good again. Idle ones are replaced, those in use have to answer within
    /// their own deadline.
    pub(crate) fn invalidate_all(&self) {
        let generation = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        for pool in self.all() {
            pool.retain(|session, _| session.handle.is_current(generation));
        }
        self.invalidated.notify_waiters();
    }

    /// Ends when all connections are invalidated the next time.
    pub(crate) async fn invalidated(&self) {
        self.invalidated.notified().await;
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

    /// Whether a transaction-mode pooler stands between.
    pub(crate) fn is_pooled_by_transaction(&self) -> bool {
        self.pooler
    }

    pub(crate) fn close(&self) {
        for pool in self.all() {
            pool.close();
        }
    }

    fn all(&self) -> [&Pool<Sessions>; 5] {
        [&self.clients, &self.claims, &self.settles, &self.upkeep, &self.reports]
    }
}

fn pool(sessions: Sessions, size: usize) -> Result<Pool<Sessions>> {
    Pool::builder(sessions).max_size(size).queue_mode(QueueMode::Lifo).build().map_err(|cause| {
        Error::new(ErrorKind::Internal, format!("cannot build the connection pool: {cause}"))
    })
}
