//! A schema of its own for each test, in the cluster that `scripts/with-postgres` starts.
#![allow(dead_code, unreachable_pub)] // each test binary uses its part

mod copies;
pub mod cost;

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};
use tokio::sync::{RwLock, RwLockWriteGuard};
use windlass_core::{JobStore, Store};
use windlass_postgres::{Access, PostgresOptions, PostgresStore};

/// Who holds it keeps many transactions open. Each of them adds pages to the claims of all tests: pages are counted while nobody does.
static CROWD: RwLock<()> = RwLock::const_new(());

/// The URL of the test cluster.
///
/// # Panics
/// When it is not set: run the tests by `make test`, or `scripts/with-postgres cargo test ...`.
pub fn url() -> String {
    std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `make test` or `scripts/with-postgres cargo test -p windlass-postgres`")
}

/// A schema name that no other test of this run has.
pub fn fresh_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Takes from a schema what version 8 brought, for tests of older ones.
pub const WITHOUT_EVENTS: &str = "DROP TABLE windlass.event, windlass.event_log CASCADE;
    DROP TRIGGER tell ON windlass.waiting; DROP TRIGGER tell ON windlass.dead; ALTER TABLE windlass.waiting DROP COLUMN moved;
    ALTER TABLE windlass.claim DROP COLUMN event_pos CASCADE, DROP COLUMN event_late CASCADE;
    ALTER TABLE windlass.settlement DROP COLUMN event_xid CASCADE; DROP SEQUENCE windlass.event_seq CASCADE;";

/// Takes from a schema what versions 12 to 17 and 19 to 26 brought; 18 and 27 to 29 may come twice.
pub const WITHOUT_LIMITS: &str = "DROP TABLE windlass.no_handler; DROP TRIGGER no_handler ON windlass.waiting; ALTER TABLE windlass.waiting DROP COLUMN xid; DROP TABLE windlass.came_back; DROP FUNCTION IF EXISTS windlass.mark_deploys; ALTER TABLE windlass.worker DROP COLUMN beat, DROP COLUMN draining_at, DROP COLUMN program, DROP COLUMN app_version, DROP COLUMN engine, DROP COLUMN memory_bytes, DROP COLUMN jobs_per_second; ALTER TABLE windlass.cancelled_in_log DROP COLUMN xid; DROP TABLE windlass.timing, windlass.failure, windlass.timing_kept CASCADE; DROP TABLE windlass.audit_entry, windlass.audit_setting CASCADE; DROP TABLE windlass.slot, windlass.started CASCADE;
    DROP TRIGGER key_freed ON windlass.settlement; DROP TRIGGER key_left ON windlass.waiting; DROP TRIGGER key_changed ON windlass.waiting;
    DROP TRIGGER key_left_elsewhere ON windlass.waiting; DROP TRIGGER key_changed_elsewhere ON windlass.waiting;
    DROP TABLE windlass.key_limit, windlass.key_lane, windlass.key_turn, windlass.key_room,
        windlass.key_held, windlass.key_signal, windlass.key_ended, windlass.key_looked,
        windlass.key_lookahead CASCADE;
    DROP SEQUENCE windlass.keyed_lane_seq, windlass.key_turn_seq CASCADE; DROP INDEX windlass.waiting_key; DROP INDEX IF EXISTS windlass.settlement_keyed;
    ALTER TABLE windlass.queue DROP COLUMN keyed CASCADE, DROP COLUMN key_rates CASCADE;
    ALTER TABLE windlass.housekeeping DROP COLUMN turns_lane CASCADE, DROP COLUMN turns_key CASCADE, DROP COLUMN turns_began_at CASCADE;
    ALTER TABLE windlass.queue DROP COLUMN concurrency CASCADE, DROP COLUMN rate CASCADE, DROP COLUMN rate_period CASCADE,
        DROP COLUMN rate_burst CASCADE;";

/// A migrated store in a fresh schema.
pub struct Fixture {
    /// No other test of this run has it.
    pub name: String,
    pub schema: String,
    pub url: String,
    pub options: PostgresOptions,
    crowd: Option<RwLockWriteGuard<'static, ()>>,
}

impl Fixture {
    /// In a schema of its own, in the database that such tests share: for those that look at what all databases of a server have together, as
    /// locks, sessions, notifications and roles, where the copies of [`Self::fresh`] could be taken for one another.
    pub async fn shared() -> Self {
        Self::with("").await
    }

    /// The same with more parameters in the URL, as in `&pooler=transaction`.
    pub async fn with(parameters: &str) -> Self {
        let schema = fresh_schema();
        let url = format!("{}?schema={schema}{parameters}", url());
        let fixture =
            Self { name: schema.clone(), schema, url, options: PostgresOptions::default(), crowd: None };
        fixture.store().await.migrate().await.expect("migrates");
        fixture
    }

    /// For a test that keeps many transactions open: pages are counted by no other test while this one goes on.
    pub async fn with_a_crowd() -> Self {
        let crowd = Some(CROWD.write().await);
        Self { crowd, ..Self::shared().await }
    }

    /// In a database of its own, which is a copy of one that was migrated once and goes with the test. A copy takes 50 ms and a
    /// migration 280, and what a server does for each schema that is there makes a run of a thousand tests twice as slow.
    pub async fn fresh() -> Self {
        let name = fresh_schema();
        let url = format!("{}?schema={}", copies::make(&name).await, copies::SCHEMA);
        Self {
            name,
            schema: copies::SCHEMA.to_owned(),
            url,
            options: PostgresOptions::default(),
            crowd: None,
        }
    }

    /// Another handle on the same schema.
    pub async fn store(&self) -> PostgresStore {
        PostgresStore::connect(&self.url, self.options.clone()).await.expect("connects")
    }

    /// A plain connection, as a user's own program has.
    pub async fn sql(&self) -> tokio_postgres::Client {
        connect(self.url.split('?').next().unwrap_or_default()).await
    }

    /// The URL of a new role that may log in and was granted this; it is named after the fixture and `name`.
    pub async fn role(&self, name: &str, access: &[Access]) -> String {
        let role = format!("{}_{name}", self.name);
        self.sql().await.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.expect("makes a role");
        for &access in access {
            self.store().await.grant(access, &role).await.expect("grants");
        }
        self.url.replace("//postgres@", &format!("//{role}@"))
    }

    /// SQL with the schema's name in place of `windlass`.
    pub fn text(&self, sql: &str) -> String {
        sql.replace("windlass.", &format!("{}.", self.schema))
    }
}

/// A plain connection whose driver task ends with it.
pub async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

#[async_trait::async_trait]
impl windlass_conformance::Fixture for Fixture {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store().await)
    }
}
