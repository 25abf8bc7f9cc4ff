use crate::{
    connection::Connection,
    database::Database,
    deadline::Patience,
    error::{Effect, beside_others, is_lock_failure, store_error},
    grant::{ONE_AT_A_TIME, grant_anew},
    owner::become_owner,
    query::Query,
    sql::{FUNCTIONS, TABLES, VERSION, render},
};
use std::{cmp::Ordering, pin::pin, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use windlass_core::{Error, ErrorKind, MigrationReport, Result};

/// Checks the schema once at connect: not newer than this binary, and not brought here from elsewhere.
pub(crate) async fn check(db: &Database) -> Result<()> {
    let mut connection = db.client("connect").await?;
    let Some(installed) = installed(db, &connection).await? else { return Ok(()) };
    installed.check(&db.schema)?;
    if installed.version == 0 {
        return Ok(());
    }
    let row = connection.query_one(&db.sql(DEFINED), &[], Effect::Repeatable).await?;
    if Defined::of(&row).for_another_name {
        let schema = &db.schema;
        return Err(Error::new(
            ErrorKind::SchemaMissing,
            format!(
                "schema {schema:?} had another name, and its functions still work on that; connect once as its owner with migrate=auto in \
                 the store URL, which defines them anew"
            ),
        ));
    }
    match ensure_home(db, &mut connection).await {
        // A producer has no right to look; a worker will.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

/// Puts the log in order when the database was moved here from another cluster: until then every write by a
/// worker is refused.
pub(crate) async fn ensure_home(db: &Database, connection: &mut Connection) -> Result<()> {
    let row = connection.query_one(&db.sql("SELECT {schema}.home_state()"), &[], Effect::Repeatable).await?;
    if row.get::<_, &str>(0) == "home" {
        return Ok(());
    }
    connection.begin_long(Patience::Endless).await?;
    // Another process may have done it meanwhile; then this does nothing.
    let row = connection.query_one(&db.sql("SELECT {schema}.rehome()"), &[], Effect::Repeatable).await?;
    if let Some(kept) = row.get::<_, Option<i64>>(0) {
        tracing::warn!(
            schema = &*db.schema,
            kept,
            "database was restored, or moved here from another cluster: unfinished jobs are available again"
        );
    }
    Ok(())
}

/// What the schema's newest migration says.
#[derive(Clone, Copy, Default)]
struct Installed {
    /// 0 before the first.
    version: u32,
    /// The oldest binary that may work on it, by the newest version that the binary knows.
    compatible_with: u32,
}

const NEWEST: &str = "SELECT version, compatible_with FROM {schema}.migration ORDER BY version DESC LIMIT 1";

impl Installed {
    fn of(newest: Option<&Row>) -> Self {
        let column = |row: &Row, index| u32::try_from(row.get::<_, i32>(index)).unwrap_or(0);
        newest.map_or_else(Self::default, |row| Self {
            version: column(row, 0),
            compatible_with: column(row, 1),
        })
    }

    /// Refuses a schema that is too new for this binary. An older one is fine: what it lacks is refused where
    /// it is used.
    fn check(self, schema: &str) -> Result<()> {
        if self.version <= VERSION || self.compatible_with <= VERSION {
            return Ok(());
        }
        let Self { version, compatible_with } = self;
        Err(Error::new(
            ErrorKind::SchemaTooNew,
            format!(
                "schema {schema:?} has version {version}, which needs a program that knows version {compatible_with}; \
                 this one knows up to {VERSION}; upgrade this program"
            ),
        ))
    }
}

/// Refuses a database that cannot keep every text.
fn check_encoding(database: &str, encoding: &str) -> Result<()> {
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidOption,
        format!(
            "database {database:?} has the encoding {encoding}, which cannot keep every text; \
             use one made by CREATE DATABASE .. ENCODING 'UTF8' TEMPLATE template0"
        ),
    ))
}

/// Migrates a schema that is missing or older than this program. One of the same version of the tables has the definitions of
/// the newest program that migrated it.
pub(crate) async fn upgrade(db: &Database) -> Result<()> {
    let connection = db.client("connect").await?;
    let installed = installed(db, &connection).await?;
    let is_current = match installed {
        Some(installed) if installed.version > VERSION => true,
        Some(installed) if installed.version == VERSION => {
            let row = connection.query_one(&db.sql(DEFINED), &[], Effect::Repeatable).await?;
            Defined::of(&row).is_of(Ordering::is_ge)
        }
        _ => false,
    };
    drop(connection);
    if !is_current {
        let report = migrate(db).await?;
        tracing::info!(schema = &*db.schema, from = report.from, to = report.to, "migrated");
    }
    Ok(())
}

/// Whose definitions the schema has, as the comment on table migration says.
const DEFINITIONS: &str = concat!("definitions of windlass ", env!("CARGO_PKG_VERSION"));

const DEFINED: &str = "SELECT coalesce(obj_description('{schema}.migration'::regclass, 'pg_class'), ''), EXISTS (
    SELECT 1 FROM pg_catalog.pg_proc p WHERE p.oid = to_regprocedure('{schema}.home_state()') AND strpos(p.prosrc, '{schema}') = 0)";

/// Whose functions the schema has.
struct Defined {
    /// By its version, the program that defined them, beside this one.
    by: Ordering,
    /// They name another schema: this one was renamed since. What they do would be done there.
    for_another_name: bool,
}

impl Defined {
    fn of(row: &Row) -> Self {
        Self { by: version(row.get(0)).cmp(&version(DEFINITIONS)), for_another_name: row.get(1) }
    }

    /// Whether they work, and are of a program that compares so.
    fn is_of(&self, program: fn(Ordering) -> bool) -> bool {
        !self.for_another_name && program(self.by)
    }
}

/// The version that a text ends with, to compare: its numbers, whether it is a release, since what is tried before one is older than that, and the parts of what such a one has behind its
/// numbers, of which numbers come before words. A text without one is older than all.
fn version(text: &str) -> (Vec<u64>, bool, Vec<Result<u64, &str>>) {
    let version = text.rsplit(' ').next().unwrap_or_default();
    let version = version.split_once('+').map_or(version, |(version, _build)| version);
    let (numbers, before) = version.split_once('-').unwrap_or((version, ""));
    let numbers = numbers.split('.').filter_map(|number| number.parse().ok()).collect();
    (numbers, before.is_empty(), before.split('.').map(|part| part.parse().map_err(|_| part)).collect())
}

/// What is in the database; `None` when the schema is not there or not ours to see.
async fn installed(db: &Database, connection: &Connection) -> Result<Option<Installed>> {
    let there =
        "SELECT to_regclass($1) IS NOT NULL, current_database()::text, current_setting('server_encoding')";
    let table = db.sql("{schema}.migration");
    let row =
        connection.query_one(there, &[(&table, tokio_postgres::types::Type::TEXT)], Effect::Repeatable).await;
    if let Ok(row) = &row {
        check_encoding(row.get(1), row.get(2))?;
    }
    match row {
        Ok(row) if row.get(0) => {}
        Ok(_) => return Ok(None),
        // No USAGE on the schema: the first real call says which privilege is missing.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(error),
    }
    match connection.query(&db.sql(NEWEST), &[], Effect::Repeatable).await {
        Ok(rows) => Ok(Some(Installed::of(rows.first()))),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(error),
    }
}

/// The tables are there and nothing that a migration writes: a dump without data, or one whose data are still to come.
pub(crate) fn without_rows(schema: &str) -> Error {
    Error::new(
        ErrorKind::SchemaMissing,
        format!(
            "schema {schema:?} has tables without the rows that a migration writes (pg_dump --schema-only?): restore the data as well, \
             or remove it (DROP SCHEMA .. CASCADE) and run `windlass migrate`"
        ),
    )
}

/// For how long a migration that changes tables gives way to whoever has some of them and comes to others, as a worker's call does: it gives back what it has before PostgreSQL would
/// end one of the two for a deadlock, and begins again. After that it waits for as long as it takes.
const GIVES_WAY: Duration = Duration::from_secs(30);
/// How long others have the tables for themselves in between.
const PAUSE: Duration = Duration::from_millis(500);
/// As short_wait has it, which an older schema does not have.
const SHORT_WAITS: &str = "SELECT set_config('lock_timeout', least(300, 1 + floor(300 * extract(epoch FROM current_setting('deadlock_timeout')::interval)))::text, true)";

/// Brings the schema up to date, in one transaction under an advisory lock: several processes may try at
/// once, and a failure leaves nothing half done.
pub(crate) async fn migrate(db: &Database) -> Result<MigrationReport> {
    let began = Instant::now();
    loop {
        let gives_way = began.elapsed() < GIVES_WAY;
        match beside_others(&db.schema, || migrate_once(db, gives_way)).await {
            Err(error) if gives_way && is_lock_failure(&error) => sleep(PAUSE).await,
            done => return done,
        }
    }
}

async fn migrate_once(db: &Database, gives_way: bool) -> Result<MigrationReport> {
    let mut connection = db.client("migrate").await?;
    connection.begin_long(Patience::Endless).await?;
    let guard = connection.guard.clone();
    let report = guard.run(Effect::Repeatable, pin!(migrate_on(db, &mut connection, gives_way))).await?;
    db.caches.clear();
    db.pools.invalidate_all(); // connections remember lanes
    Ok(report)
}

async fn migrate_on(db: &Database, connection: &mut Connection, gives_way: bool) -> Result<MigrationReport> {
    let fail = |cause| store_error(cause, Effect::Repeatable);
    // Who waited for another migration sees what that did, whatever isolation the role has.
    let transaction = connection.begin().await?;
    let schema: &str = &db.schema;
    transaction.batch_execute(&render(ONE_AT_A_TIME, schema)).await.map_err(fail)?;
    become_owner(transaction.client(), schema).await?;
    // Without the right to create schemas one may still migrate into an existing one.
    let there = transaction
        .query_one("SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", &[&schema])
        .await
        .map_err(fail)?;
    if !there.get::<_, bool>(0) {
        transaction.batch_execute(&render("CREATE SCHEMA {schema}", schema)).await.map_err(fail)?;
    }
    let known = transaction
        .query_one("SELECT to_regclass($1) IS NOT NULL", &[&render("{schema}.migration", schema)])
        .await
        .map_err(fail)?;
    let installed = match known.get::<_, bool>(0) {
        true => {
            let newest = transaction.query_opt(&render(NEWEST, schema), &[]).await.map_err(fail)?;
            Installed::of(Some(&newest.ok_or_else(|| without_rows(schema))?))
        }
        false => Installed::default(),
    };
    installed.check(schema)?;
    let from = installed.version;
    if gives_way && (1..VERSION).contains(&from) {
        transaction.batch_execute(SHORT_WAITS).await.map_err(fail)?;
    }
    for (index, tables) in TABLES.iter().enumerate().skip(from as usize) {
        transaction.batch_execute(&render(tables.file, schema)).await.map_err(fail)?;
        let version = i32::try_from(index + 1).unwrap_or(i32::MAX);
        let note =
            render("INSERT INTO {schema}.migration (version, compatible_with) VALUES ($1, $2)", schema);
        transaction.execute(&note, &[&version, &tables.compatible_with]).await.map_err(fail)?;
    }
    // Those of a newer program are for its calls as well as for those of older ones, and the other way round they are not: where one of its functions has another parameter, there would be two.
    let newer = from > VERSION
        || from == VERSION && {
            let row = transaction.query_one(&render(DEFINED, schema), &[]).await.map_err(fail)?;
            Defined::of(&row).is_of(Ordering::is_gt)
        };
    if !newer {
        // Definitions name tables and functions that come later in the list.
        transaction.batch_execute("SET LOCAL check_function_bodies = off").await.map_err(fail)?;
        for file in FUNCTIONS {
            transaction.batch_execute(&render(file, schema)).await.map_err(fail)?;
        }
        let note = format!("COMMENT ON TABLE {{schema}}.migration IS '{DEFINITIONS}'");
        transaction.batch_execute(&render(&note, schema)).await.map_err(fail)?;
        grant_anew(transaction.client(), schema).await?;
    }
    transaction.commit().await.map_err(fail)?;
    Ok(MigrationReport { from, to: from.max(VERSION), newer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_before_a_release_is_older_than_it() {
        let ascending = [
            "",
            "definitions of windlass 0.0.9",
            "definitions of windlass 0.1.0-alpha.2",
            "definitions of windlass 0.1.0-rc",
            "definitions of windlass 0.1.0-rc.1",
            "definitions of windlass 0.1.0-rc.2",
            "definitions of windlass 0.1.0-rc.10",
            "definitions of windlass 0.1.0",
            "definitions of windlass 0.1.1-rc.1",
            "definitions of windlass 0.1.2",
            "definitions of windlass 0.1.10",
            "definitions of windlass 1.0.0-rc.1",
        ];
        for pair in ascending.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
        assert_eq!(
            version("definitions of windlass 0.1.0+linux.7"),
            version("definitions of windlass 0.1.0")
        );
        assert!(version(DEFINITIONS).0.len() == 3, "{DEFINITIONS}");
    }
}
