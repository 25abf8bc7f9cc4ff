//! The owner of the schema: who migrates and grants.

use crate::{
    error::{Effect, store_error},
    sql::render,
};
use tokio_postgres::Client;
use windlass_core::{Error, ErrorKind, Result};

/// Whose the tables are, whether this login may act as that role, and whether it can become it.
const OWNER: &str = "SELECT pg_get_userbyid(c.relowner)::text, pg_has_role(c.relowner, 'USAGE'), current_user::text,
        pg_has_role(c.relowner, CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END)
     FROM pg_class c WHERE c.oid = to_regclass($1)";

/// Lets the rest of the transaction act as the owner of the tables, and returns the owner's name; `None` where there are no
/// tables yet. The functions that run with the rights of their owner must all be the same role's: those that a superuser
/// made would run as that, in the hands of whoever owns the tables.
///
/// # Errors
/// `permission_denied` for who is not the owner, nor a member of that role.
pub(crate) async fn become_owner(transaction: &Client, schema: &str) -> Result<Option<String>> {
    let fail = |cause| store_error(cause, Effect::Repeatable);
    let table = render("{schema}.migration", schema);
    let Some(row) = transaction.query_opt(OWNER, &[&table]).await.map_err(fail)? else { return Ok(None) };
    let (owner, user): (String, String) = (row.get(0), row.get(2));
    if !row.get::<_, bool>(1) {
        return Err(Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "schema {schema:?} belongs to role {owner:?}, not to {user:?}; connect as {owner:?} to migrate and to grant"
            ),
        ));
    }
    if owner != user && row.get(3) {
        let become_it = format!("SET LOCAL ROLE \"{}\"", owner.replace('"', "\"\""));
        transaction.batch_execute(&become_it).await.map_err(fail)?;
    }
    Ok(Some(owner))
}
