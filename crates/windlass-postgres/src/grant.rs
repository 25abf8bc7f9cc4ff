//! Who may do what: granting it, taking it away, and granting what is new after a migration.

use crate::{
    access::{Access, quoted},
    connection::commit,
    database::Database,
    deadline::Patience,
    error::{Effect, beside_others, store_error},
    owner::become_owner,
    query::Query,
    sql::render,
};
use deadpool_postgres::ClientWrapper;
use std::pin::pin;
use tokio_postgres::{Client, IsolationLevel, types::Type};
use windlass_core::{Error, ErrorKind, Result};

/// Migrations and grants follow one another: two that change the rights of one table at once would fail. None of them has a limit that
/// the role sets: behind a transaction-mode pooler no session says so.
pub(crate) const ONE_AT_A_TIME: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
    SELECT pg_advisory_xact_lock(hashtext({name} || '.migrate'), 0)";

pub(crate) async fn grant(db: &Database, access: Access, role: &str) -> Result<()> {
    beside_others(&db.schema, || grant_once(db, access, role)).await
}

async fn grant_once(db: &Database, access: Access, role: &str) -> Result<()> {
    let name = quoted(role)?;
    let mut connection = db.client("grant").await?;
    connection.begin_long(Patience::Long).await?;
    let granting = async {
        let transaction = begin(&mut connection.object, &db.schema, role).await?;
        run(transaction.client(), &access.statements(&db.schema, &name)).await?;
        commit(transaction).await
    };
    connection.guard.run(Effect::Repeatable, pin!(granting)).await
}

/// Whether the role had it. What another access that the role has takes as well stays.
pub(crate) async fn revoke(db: &Database, access: Access, role: &str) -> Result<bool> {
    beside_others(&db.schema, || revoke_once(db, access, role)).await
}

async fn revoke_once(db: &Database, access: Access, role: &str) -> Result<bool> {
    let name = quoted(role)?;
    let mut connection = db.client("revoke").await?;
    connection.begin_long(Patience::Long).await?;
    let revoking = async {
        let transaction = begin(&mut connection.object, &db.schema, role).await?;
        let mut had = granted(transaction.client(), &db.schema).await?;
        had.retain(|(other_role, _)| other_role == role);
        if had.iter().all(|(_, other)| *other != access) {
            return Ok(false);
        }
        run(transaction.client(), &access.revocation(&db.schema, &name)).await?;
        for (_, other) in had.iter().filter(|(_, other)| *other != access) {
            run(transaction.client(), &other.statements(&db.schema, &name)).await?;
        }
        commit(transaction).await?;
        Ok(true)
    };
    connection.guard.run(Effect::Repeatable, pin!(revoking)).await
}

/// Grants what everybody who was granted access needs now.
pub(crate) async fn grant_anew(transaction: &Client, schema: &str) -> Result<()> {
    for (role, access) in granted(transaction, schema).await? {
        run(transaction, &access.statements(schema, &quoted(&role)?)).await?;
    }
    Ok(())
}

/// Begins a transaction that changes the rights of a role.
async fn begin<'a>(
    client: &'a mut ClientWrapper,
    schema: &str,
    role: &str,
) -> Result<deadpool_postgres::Transaction<'a>> {
    let fail = |cause| store_error(cause, Effect::Repeatable);
    let transaction = client
        .build_transaction()
        .isolation_level(IsolationLevel::ReadCommitted)
        .start()
        .await
        .map_err(fail)?;
    run(transaction.client(), &render(ONE_AT_A_TIME, schema)).await?;
    let Some(owner) = become_owner(transaction.client(), schema).await? else {
        let message = format!("there is no schema {schema:?} in this database; run `windlass migrate` first");
        return Err(Error::new(ErrorKind::SchemaMissing, message));
    };
    if owner == role {
        let message = format!("role {role:?} owns schema {schema:?} and may do everything there");
        return Err(Error::new(ErrorKind::InvalidOption, format!("{message}; name another role")));
    }
    let there = "SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1)";
    let row = transaction.query_one(there, &[&role]).await.map_err(fail)?;
    if !row.get::<_, bool>(0) {
        let message = format!(
            "role {role:?} does not exist; create it first, as by CREATE ROLE {} LOGIN",
            quoted(role)?
        );
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    Ok(transaction)
}

async fn run(transaction: &Client, statements: &str) -> Result<()> {
    transaction.batch_execute(statements).await.map_err(|cause| store_error(cause, Effect::Repeatable))
}

/// Who may call the function of an access, its owner left out.
pub(crate) async fn granted(on: &impl Query, schema: &str) -> Result<Vec<(String, Access)>> {
    let sql = "SELECT r.rolname::text, p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
               CROSS JOIN LATERAL aclexplode(p.proacl) AS a JOIN pg_roles r ON r.oid = a.grantee
               WHERE n.nspname = $1 AND a.grantee <> p.proowner AND p.proname LIKE 'granted\\_%' ORDER BY 1, 2";
    let rows = on.query(sql, &[(&schema, Type::TEXT)], Effect::Repeatable).await?;
    let known = |name: &str| Access::ALL.into_iter().find(|access| access.marker() == name);
    Ok(rows.iter().filter_map(|row| Some((row.get(0), known(row.get(1))?))).collect())
}
