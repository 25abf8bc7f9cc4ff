//! What the pools hold: a connection that knows whether its commits reached the synchronous standby, whether
//! it still answers, and what was read on it.

use crate::{
    error::chain,
    lock::lock,
    server::{Server, TlsStream},
};
use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use std::{
    collections::HashMap,
    future::poll_fn,
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{task::AbortHandle, time::timeout};
use tokio_postgres::{
    AsyncMessage, CancelToken, Connection, Socket,
    error::{DbError, SqlState},
};
use windlass_core::{Error, ErrorKind, Result};

/// Databases and roles may set other defaults: claims need READ COMMITTED, [`CommitWatch`] the warnings. Calls have
/// deadlines of their own, by which they repeat what they can: a limit of the role below them would cancel a large
/// settlement each time anew, and one of a few milliseconds what takes it away. Which limits there are depends on the server's version.
const SETTINGS: &str = "SET statement_timeout = 0; SET default_transaction_isolation = 'read committed'; SET client_min_messages = 'warning'; SET jit = off;
    SET extra_float_digits = 1";
/// Takes away the limits that the role or the database sets.
pub(crate) const NO_TIMEOUTS: &str = "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN ('statement_timeout', 'lock_timeout',
        'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout')";

/// How long the server is asked to stop what nobody waits for any more.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// The most lanes that one connection remembers.
const MAX_LANES: usize = 10_000;
/// How long it remembers one. Housekeeping removes a lane a day after new writers were last told of it: see
/// `sql/functions/26_forget_lanes.sql`.
const LANE_TTL: Duration = Duration::from_secs(60);

/// One connection of a pool.
pub(crate) struct Session {
    client: ClientWrapper,
    pub(crate) handle: Arc<SessionHandle>,
    lanes: Mutex<HashMap<(String, i16), (i32, Instant)>>,
}

/// What outlives a borrowed session: the way to close its connection, and what the driver of the connection counts.
pub(crate) struct SessionHandle {
    driver: AbortHandle,
    cancel: CancelToken,
    /// How many of its commits the server answered without the acknowledgement of the standby.
    unreplicated: Arc<AtomicU64>,
    /// The generation of the pools when it last answered.
    generation: AtomicU64,
    /// It was asked for something and has not answered yet.
    owes: AtomicBool,
    /// Nobody is to use the connection any more, whether its driver knows that already or not.
    closed: AtomicBool,
}

impl SessionHandle {
    pub(crate) fn asked(&self) {
        self.owes.store(true, Ordering::Release);
    }

    /// It answered, in this generation of the pools.
    pub(crate) fn answered_in(&self, generation: u64) {
        self.owes.store(false, Ordering::Release);
        self.generation.store(generation, Ordering::Release);
    }

    /// Whether it answered since this generation began.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Acquire) >= generation
    }

    /// Whether it owes an answer to somebody who does not wait for it any more, on a connection that is open.
    pub(crate) fn is_owed_an_answer(&self) -> bool {
        self.owes.load(Ordering::Acquire) && !self.closed.load(Ordering::Acquire)
    }

    /// Closes the connection; a statement that is under way goes on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.driver.abort();
    }

    /// Closes the connection and cancels a statement that is still under way: a server process that waits for a lock
    /// does not notice that its client is gone, and each repetition of the call would add another such process.
    pub(crate) fn abandon(self: &Arc<Self>, server: &Server) {
        self.close();
        let (handle, server) = (Arc::clone(self), server.clone());
        tokio::spawn(async move { handle.stop(&server).await });
    }

    /// Asks the server to stop the statement that is under way.
    pub(crate) async fn stop(&self, server: &Server) {
        if let Ok(Err(error)) = timeout(CANCEL_TIMEOUT, self.cancel.cancel_query(server.tls())).await {
            tracing::debug!(error = %chain(&error), "cannot cancel what nobody waits for any more");
        }
    }
}

/// Makes the connections of a pool.
pub(crate) struct Sessions {
    pub(crate) server: Server,
    /// A transaction-mode pooler stands between: nothing may be set.
    pub(crate) pooler: bool,
    /// The current generation of the pools.
    pub(crate) generation: Arc<AtomicU64>,
}

impl Manager for Sessions {
    type Type = Session;
    type Error = tokio_postgres::Error;

    async fn create(&self) -> Result<Session, tokio_postgres::Error> {
        let generation = AtomicU64::new(self.generation.load(Ordering::Acquire));
        // Boxed, because it is rare and large, and part of the future of every call.
        let (client, connection) = Box::pin(self.server.connect()).await?;
        let unreplicated = Arc::default();
        let task = tokio::spawn(drive(connection, Arc::clone(&unreplicated)));
        let handle = SessionHandle {
            driver: task.abort_handle(),
            cancel: client.cancel_token(),
            unreplicated,
            generation,
            owes: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        };
        let client = ClientWrapper::new(client, task);
        if !self.pooler {
            client.batch_execute(&format!("{SETTINGS}; {NO_TIMEOUTS}")).await?;
        }
        Ok(Session { client, handle: Arc::new(handle), lanes: Mutex::default() })
    }

    async fn recycle(&self, session: &mut Session, _: &Metrics) -> RecycleResult<tokio_postgres::Error> {
        if session.is_closed()
            || session.handle.closed.load(Ordering::Acquire)
            || session.handle.owes.load(Ordering::Acquire)
        {
            return Err(RecycleError::message("connection closed"));
        }
        if !session.handle.is_current(self.generation.load(Ordering::Acquire)) {
            return Err(RecycleError::message("silent since another connection was lost"));
        }
        Ok(())
    }
}

/// The lanes that were read on this connection. A failover that loses the commit which made a lane ends the
/// connection too, and so what it remembers.
impl Session {
    pub(crate) fn lane(&self, queue: &str, priority: i16) -> Option<i32> {
        let (lane, read_at) = *lock(&self.lanes).get(&(queue.to_owned(), priority))?;
        (read_at.elapsed() < LANE_TTL).then_some(lane)
    }

    pub(crate) fn set_lane(&self, queue: &str, priority: i16, lane: i32) {
        let mut lanes = lock(&self.lanes);
        if lanes.len() >= MAX_LANES {
            lanes.clear();
        }
        lanes.insert((queue.to_owned(), priority), (lane, Instant::now()));
    }
}

impl Deref for Session {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.client
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        &mut self.client
    }
}

/// Runs a connection to its end and counts the commits that were not replicated. The notice comes before
/// the end of the command that it is about, so who has the answer sees the count.
async fn drive(mut connection: Connection<Socket, TlsStream>, unreplicated: Arc<AtomicU64>) {
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notice(notice)) => {
                if is_cancelled_wait(&notice) {
                    unreplicated.fetch_add(1, Ordering::Release);
                }
                tracing::debug!(severity = notice.severity(), message = notice.message(), "PostgreSQL says");
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(error = %chain(&error), "a connection to PostgreSQL ended");
                return;
            }
        }
    }
}

/// Whether the server gave up waiting for its synchronous standby. The text is in the server's language, so
/// the place in its source counts too.
fn is_cancelled_wait(notice: &DbError) -> bool {
    *notice.code() == SqlState::WARNING
        && (notice.routine() == Some("SyncRepWaitForLSN")
            || notice.message().starts_with("canceling wait for synchronous replication"))
}

/// Notices when a commit of one call was acknowledged though it is on one server only. Begin it before the
/// call: PostgreSQL answers a commit whose wait was cancelled with success and a warning.
pub(crate) struct CommitWatch {
    handle: Arc<SessionHandle>,
    before: u64,
}

impl CommitWatch {
    pub(crate) fn begin(session: &Session) -> Self {
        let handle = Arc::clone(&session.handle);
        Self { before: handle.unreplicated.load(Ordering::Acquire), handle }
    }

    /// After the commit was answered.
    pub(crate) fn end(self) -> Result<()> {
        if self.handle.unreplicated.load(Ordering::Acquire) == self.before {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Ambiguous,
            "PostgreSQL was told to stop waiting for its synchronous standby: the jobs are stored on this server, \
             and lost if it fails over now; repeat an enqueue_once, or look for them",
        ))
    }
}
