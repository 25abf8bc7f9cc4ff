//! Who may do what: granting it, taking it away, and granting what is new after a migration.

use crate::{
    access::{Access, quoted},
    connection::{Connection, commit},
    database::Database,
    error::{Effect, store_error},
    owner::become_owner,
    sql::render,
};
use tokio_postgres::Client;
use windlass_core::{Error, ErrorKind, Result};

/// Migrations and grants follow one another: two that change the rights of one table at once would fail.
pub(crate) const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(hashtext({name} || '.migrate'), 0)";

pub(crate) async fn grant(db: &Database, access: Access, role: &str) -> Result<()> {
    let role_name = quoted(role)?;
    let mut connection = db.client("grant").await?;
    let transaction = begin(db, &mut connection, role).await?;
    run(transaction.client(), &access.statements(&db.schema, &role_name)).await?;
    commit(transaction).await
}

/// Whether the role had it. What another access that the role has takes as well stays.
pub(crate) async fn revoke(db: &Database, access: Access, role: &str) -> Result<bool> {
    let role_name = quoted(role)?;
    let mut connection = db.client("revoke").await?;
    let transaction = begin(db, &mut connection, role).await?;
    let mut others = granted(transaction.client(), &db.schema).await?;
    others.retain(|(name, _)| name == role);
    let had = others.iter().position(|(_, other)| *other == access);
    let Some(had) = had else { return Ok(false) };
    others.swap_remove(had);
    run(transaction.client(), &access.revocation(&db.schema, &role_name)).await?;
    for (_, other) in others {
        run(transaction.client(), &other.statements(&db.schema, &role_name)).await?;
    }
    commit(transaction).await?;
    Ok(true)
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
    db: &Database,
    connection: &'a mut Connection,
    role: &str,
) -> Result<deadpool_postgres::Transaction<'a>> {
    let transaction = connection.begin().await?;
    run(transaction.client(), &render(ONE_AT_A_TIME, &db.schema)).await?;
    let Some(owner) = become_owner(transaction.client(), &db.schema).await? else {
        let message =
            format!("there is no schema {:?} in this database; run `windlass migrate` first", db.schema);
        return Err(Error::new(ErrorKind::SchemaMissing, message));
    };
    if owner == role {
        let message = format!("role {role:?} owns schema {:?} and may do everything there", db.schema);
        return Err(Error::new(ErrorKind::InvalidOption, format!("{message}; name another role")));
    }
    let there = "SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1)";
    let row = transaction
        .query_one(there, &[&role])
        .await
        .map_err(|cause| store_error(cause, Effect::Repeatable))?;
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
pub(crate) async fn granted(client: &Client, schema: &str) -> Result<Vec<(String, Access)>> {
    let sql = "SELECT r.rolname::text, p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
               CROSS JOIN LATERAL aclexplode(p.proacl) AS a JOIN pg_roles r ON r.oid = a.grantee
               WHERE n.nspname = $1 AND a.grantee <> p.proowner AND p.proname LIKE 'granted\\_%' ORDER BY 1, 2";
    let rows = client.query(sql, &[&schema]).await.map_err(|cause| store_error(cause, Effect::Repeatable))?;
    let known = |name: &str| Access::ALL.into_iter().find(|access| access.marker() == name);
    Ok(rows.iter().filter_map(|row| Some((row.get(0), known(row.get(1))?))).collect())
}
