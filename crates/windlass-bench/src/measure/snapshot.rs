use super::server::open_session;
use tokio_postgres::Client;
use windlass::StoreKind;
use windlass_cli::failure::{Failure, Outcome};

/// A snapshot that another session of the database holds open, as a long report would.
pub(crate) struct HeldSnapshot {
    _session: Client,
}

impl HeldSnapshot {
    /// Opens a transaction and its snapshot; both last until this is dropped.
    pub(crate) async fn open(url: &str) -> Outcome<Self> {
        let failed = |error: tokio_postgres::Error| {
            Failure::failed("unavailable", format!("cannot hold a snapshot: {error}"))
        };
        Self::check(url)?;
        let session = open_session(url).await.map_err(failed)?;
        // With a transaction id it also holds back vacuum.
        let begin = "begin isolation level repeatable read; select pg_current_xact_id()";
        session.batch_execute(begin).await.map_err(failed)?;
        Ok(Self { _session: session })
    }

    /// Fails unless the store has snapshots that hold back others.
    pub(crate) fn check(url: &str) -> Outcome {
        if StoreKind::of(url)? == StoreKind::Postgres {
            return Ok(());
        }
        let message = "holding a snapshot needs a PostgreSQL store; name one with --store postgres://...";
        Err(Failure::usage("unsupported", message))
    }
}
