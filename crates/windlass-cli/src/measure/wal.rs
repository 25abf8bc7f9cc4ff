use crate::failure::{Failure, Outcome};
use tokio_postgres::{Client, NoTls};
use windlass::StoreKind;

/// Reads how much WAL a PostgreSQL server has written, through a connection of its own.
pub(crate) struct WalGauge(Option<Client>);

/// A snapshot that another session of the database holds open, as a long report would.
pub(crate) struct HeldSnapshot {
    _session: Client,
}

impl WalGauge {
    /// Connects. Other stores, and servers that want TLS or refuse the function, are not gauged.
    pub(crate) async fn open(url: &str) -> Self {
        match StoreKind::of(url) {
            Ok(StoreKind::Postgres) => Self(connect(url).await.ok()),
            _ => Self(None),
        }
    }

    /// The bytes written since the server exists.
    pub(crate) async fn bytes(&self) -> Option<u64> {
        let query = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        let bytes: i64 = self.0.as_ref()?.query_one(query, &[]).await.ok()?.get(0);
        u64::try_from(bytes).ok()
    }

    /// Whether a commit waits for the disk.
    pub(crate) async fn synchronous_commit(&self) -> Option<String> {
        let row = self.0.as_ref()?.query_one("show synchronous_commit", &[]).await.ok()?;
        Some(row.get(0))
    }
}

impl HeldSnapshot {
    /// Opens a transaction and its snapshot; both last until this is dropped.
    pub(crate) async fn open(url: &str) -> Outcome<Self> {
        let failed = |error: tokio_postgres::Error| {
            Failure::failed("unavailable", format!("cannot hold a snapshot: {error}"))
        };
        if StoreKind::of(url)? != StoreKind::Postgres {
            let message = "--hold-snapshot needs a PostgreSQL store; name one with --store postgres://...";
            return Err(Failure::usage("unsupported", message));
        }
        let session = connect(url).await.map_err(failed)?;
        // The transaction id makes it hold back cleaning up as well.
        let begin = "begin isolation level repeatable read; select pg_current_xact_id()";
        session.batch_execute(begin).await.map_err(failed)?;
        Ok(Self { _session: session })
    }
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    // The store's own parameters mean nothing to the driver, so they are left out.
    let plain = url.split_once('?').map_or(url, |(plain, _)| plain);
    let config = url.parse::<tokio_postgres::Config>().or_else(|_| plain.parse())?;
    let (client, connection) = config.connect(NoTls).await?;
    // It ends by itself when the client is dropped.
    tokio::spawn(connection);
    Ok(client)
}
