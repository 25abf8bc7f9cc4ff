use crate::{
    connection::Connection,
    error::{Effect, store_error},
    sql::{MIGRATIONS, VERSION, render},
    store::PostgresStore,
};
use windlass_core::{Error, ErrorKind, MigrationReport, Result};

/// Checks the schema once at connect: not newer than this binary, and not brought here from elsewhere.
pub(crate) async fn check(store: &PostgresStore) -> Result<()> {
    let connection = store.connections.client().await?;
    let Some(version) = installed(store, &connection).await? else { return Ok(()) };
    refuse_newer(version, &store.schema)?;
    if version == 0 {
        return Ok(());
    }
    let transplanted = store.sql("SELECT {schema}.is_transplanted()");
    let moved: bool = match connection.query_one(&transplanted, &[], Effect::Repeatable).await {
        Ok(row) => row.get(0),
        // A producer has no right to look; a worker will.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(error),
    };
    if moved {
        let row = connection.query_one(&store.sql("SELECT {schema}.rehome()"), &[], Effect::Write).await?;
        if let Some(kept) = row.get::<_, Option<i64>>(0) {
            tracing::warn!(
                schema = store.schema,
                kept,
                "database was restored from another cluster: unfinished jobs are available again"
            );
        }
    }
    Ok(())
}

/// The version in the database; `None` when the schema is not there or not ours to see.
async fn installed(store: &PostgresStore, connection: &Connection) -> Result<Option<u32>> {
    let there = "SELECT to_regclass($1) IS NOT NULL";
    let table = store.sql("{schema}.migration");
    let row =
        connection.query_one(there, &[(&table, tokio_postgres::types::Type::TEXT)], Effect::Repeatable).await;
    match row {
        Ok(row) if row.get(0) => {}
        Ok(_) => return Ok(None),
        // No USAGE on the schema: the first real call says which privilege is missing.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(error),
    }
    let newest = store.sql("SELECT coalesce(max(version), 0) FROM {schema}.migration");
    match connection.query_one(&newest, &[], Effect::Repeatable).await {
        Ok(row) => Ok(Some(u32::try_from(row.get::<_, i32>(0)).unwrap_or(0))),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(error),
    }
}

fn refuse_newer(version: u32, schema: &str) -> Result<()> {
    if version <= VERSION {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::SchemaTooNew,
        format!(
            "schema {schema:?} has version {version}, this binary knows up to {VERSION}; upgrade this program"
        ),
    ))
}

/// Brings the schema up to date, in one transaction under an advisory lock: several processes may try at
/// once, and a failure leaves nothing half done.
pub(crate) async fn migrate(store: &PostgresStore) -> Result<MigrationReport> {
    let mut connection = store.connections.client().await?;
    let fail = |cause| store_error(cause, Effect::Repeatable);
    let transaction = connection.object.transaction().await.map_err(fail)?;
    let schema = &store.schema;
    transaction
        .batch_execute(&render("SELECT pg_advisory_xact_lock(hashtext({name} || '.migrate'), 0)", schema))
        .await
        .map_err(fail)?;
    // Without the right to create schemas one may still migrate into an existing one.
    let there = transaction
        .query_one("SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", &[schema])
        .await
        .map_err(fail)?;
    if !there.get::<_, bool>(0) {
        transaction.batch_execute(&render("CREATE SCHEMA {schema}", schema)).await.map_err(fail)?;
    }
    let known = transaction
        .query_one("SELECT to_regclass($1) IS NOT NULL", &[&render("{schema}.migration", schema)])
        .await
        .map_err(fail)?;
    let from = if known.get::<_, bool>(0) {
        let newest = render("SELECT coalesce(max(version), 0) FROM {schema}.migration", schema);
        u32::try_from(transaction.query_one(&newest, &[]).await.map_err(fail)?.get::<_, i32>(0)).unwrap_or(0)
    } else {
        0
    };
    refuse_newer(from, schema)?;
    for (index, files) in MIGRATIONS.iter().enumerate().skip(from as usize) {
        for file in *files {
            transaction.batch_execute(&render(file, schema)).await.map_err(fail)?;
        }
        let version = i32::try_from(index + 1).unwrap_or(i32::MAX);
        let note = render("INSERT INTO {schema}.migration (version) VALUES ($1)", schema);
        transaction.execute(&note, &[&version]).await.map_err(fail)?;
    }
    transaction.commit().await.map_err(fail)?;
    store.caches.clear();
    Ok(MigrationReport { from, to: VERSION })
}
