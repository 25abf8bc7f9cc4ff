use super::server_cpu::ServerProcesses;
use serde_json::{Map, Value};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};
use windlass::StoreKind;

/// The settings of a server that decide what a write costs.
const SETTINGS: [&str; 7] = [
    "shared_buffers",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "wal_level",
    "max_wal_size",
    "wal_compression",
];
/// The first version in which a session reports its commits before it is gone.
const PROMPT_COMMITS: i32 = 150_000;
/// How long the server may take to end sessions that were closed.
const GONE: Duration = Duration::from_secs(2);

/// Reads what a PostgreSQL server has spent, through a connection of its own. For other stores, and for servers
/// that demand TLS or refuse a function, there is nothing to read.
pub(crate) struct ServerGauge(Option<Session>);

struct Session {
    client: Client,
    version: i32,
    processes: Option<ServerProcesses>,
}

/// The counters of a server at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Bytes of WAL.
    pub(crate) wal_bytes: Option<u64>,
    /// How many transaction ids were given: that many transactions wrote.
    pub(crate) writes: Option<u64>,
    /// Processor seconds of all its processes.
    pub(crate) cpu_seconds: Option<f64>,
}

impl ServerGauge {
    pub(crate) async fn open(url: &str) -> Self {
        match StoreKind::of(url) {
            Ok(StoreKind::Postgres) => Self(Session::open(url).await.ok()),
            _ => Self(None),
        }
    }

    /// The counters now.
    pub(crate) async fn counters(&self) -> Counters {
        let Some(session) = &self.0 else { return Counters::default() };
        let wal = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        let ids = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
        Counters {
            wal_bytes: session.number(wal).await,
            writes: session.number(ids).await,
            cpu_seconds: session.processes.as_ref().and_then(ServerProcesses::cpu_seconds),
        }
    }

    /// The commits of the database, reading transactions included. A session reports its commits at most once
    /// a second while it works, and all of them when it ends. So call this after all clients are closed: it
    /// waits until their sessions are gone. `None` before PostgreSQL 15.
    pub(crate) async fn commits(&self) -> Option<u64> {
        let session = self.0.as_ref().filter(|session| session.version >= PROMPT_COMMITS)?;
        let ours = "select count(*) from pg_stat_activity a, pg_stat_activity me
                    where me.pid = pg_backend_pid() and a.datname = me.datname
                      and a.application_name = 'windlass' and a.backend_start > me.backend_start";
        let asked = Instant::now();
        while session.number(ours).await? > 0 && asked.elapsed() < GONE {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        session.number("select xact_commit from pg_stat_database where datname = current_database()").await
    }

    /// Whether a commit waits for the disk.
    pub(crate) async fn synchronous_commit(&self) -> Option<String> {
        let row = self.0.as_ref()?.client.query_one("show synchronous_commit", &[]).await.ok()?;
        Some(row.get(0))
    }

    /// The settings that matter to a measurement, as the sessions of this URL have them.
    pub(crate) async fn settings(&self) -> Option<Map<String, Value>> {
        let query = "select name, current_setting(name) from pg_settings where name = any($1) order by name";
        let rows = self.0.as_ref()?.client.query(query, &[&SETTINGS.as_slice()]).await.ok()?;
        Some(rows.iter().map(|row| (row.get(0), Value::String(row.get(1)))).collect())
    }
}

impl Session {
    async fn open(url: &str) -> Result<Self, tokio_postgres::Error> {
        let client = open_session(url).await?;
        let query = "select current_setting('server_version_num')::int, pg_backend_pid(), inet_client_port()";
        let row = client.query_one(query, &[]).await?;
        let processes = u32::try_from(row.get::<_, i32>(1)).ok();
        let processes = processes.and_then(|backend| ServerProcesses::find(backend, row.get(2)));
        Ok(Self { version: row.get(0), processes, client })
    }

    async fn number(&self, query: &str) -> Option<u64> {
        let number: i64 = self.client.query_one(query, &[]).await.ok()?.get(0);
        u64::try_from(number).ok()
    }
}

/// A session of the database driver, beside those of the store.
pub(crate) async fn open_session(url: &str) -> Result<Client, tokio_postgres::Error> {
    let mut config: tokio_postgres::Config = for_driver(url).parse()?;
    config.application_name("windlass-gauge");
    let (client, connection) = config.connect(NoTls).await?;
    // It ends by itself when the client is dropped.
    tokio::spawn(connection);
    Ok(client)
}

/// The URL without the store's own parameters, which mean nothing to the driver.
fn for_driver(url: &str) -> String {
    let Some((plain, query)) = url.split_once('?') else { return url.to_owned() };
    let ours = |pair: &&str| ["schema=", "pooler=", "ssl"].iter().any(|name| pair.starts_with(name));
    let rest: Vec<_> = query.split('&').filter(|pair| !pair.is_empty() && !ours(pair)).collect();
    if rest.is_empty() { plain.to_owned() } else { format!("{plain}?{}", rest.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_gets_only_its_own_parameters() {
        assert_eq!(for_driver("postgres://h/d"), "postgres://h/d");
        assert_eq!(for_driver("postgres://h/d?schema=x&sslmode=prefer"), "postgres://h/d");
        let url = "postgres://h/d?pooler=none&options=-c%20synchronous_commit%3Doff";
        assert_eq!(for_driver(url), "postgres://h/d?options=-c%20synchronous_commit%3Doff");
    }
}
