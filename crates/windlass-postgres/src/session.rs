//! What the pools hold: a connection that knows whether its commits reached the synchronous standby.

use crate::{options::chain, server::Server, server::TlsStream};
use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use std::{
    future::poll_fn,
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio_postgres::{
    AsyncMessage, Connection, Socket,
    error::{DbError, SqlState},
};
use windlass_core::{Error, ErrorKind, Result};

/// Databases and roles may set other defaults: claims need READ COMMITTED, [`CommitWatch`] the warnings.
const SETTINGS: &str =
    "SET default_transaction_isolation = 'read committed'; SET client_min_messages = 'warning'";

/// One connection of a pool.
pub(crate) struct Session {
    client: ClientWrapper,
    /// How many of its commits the server answered without the standby's word.
    unreplicated: Arc<AtomicU64>,
}

/// Makes the connections of a pool.
pub(crate) struct Sessions {
    pub(crate) server: Server,
    /// A transaction-mode pooler stands between: nothing may be set.
    pub(crate) pooler: bool,
}

impl Manager for Sessions {
    type Type = Session;
    type Error = tokio_postgres::Error;

    async fn create(&self) -> Result<Session, tokio_postgres::Error> {
        // Boxed, because it is rare and large, and part of the future of every call.
        let (client, connection) = Box::pin(self.server.connect()).await?;
        let unreplicated = Arc::default();
        let driver = tokio::spawn(drive(connection, Arc::clone(&unreplicated)));
        let client = ClientWrapper::new(client, driver);
        if !self.pooler {
            client.batch_execute(SETTINGS).await?;
        }
        Ok(Session { client, unreplicated })
    }

    async fn recycle(&self, session: &mut Session, _: &Metrics) -> RecycleResult<tokio_postgres::Error> {
        match session.is_closed() {
            true => Err(RecycleError::message("connection closed")),
            false => Ok(()),
        }
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
    unreplicated: Arc<AtomicU64>,
    before: u64,
}

impl CommitWatch {
    pub(crate) fn begin(session: &Session) -> Self {
        let unreplicated = Arc::clone(&session.unreplicated);
        Self { before: unreplicated.load(Ordering::Acquire), unreplicated }
    }

    /// After the commit was answered.
    pub(crate) fn end(self) -> Result<()> {
        if self.unreplicated.load(Ordering::Acquire) == self.before {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Ambiguous,
            "PostgreSQL was told to stop waiting for its synchronous standby: the jobs are stored on this server, \
             and lost if it fails over now; repeat an enqueue_once, or look for them",
        ))
    }
}
