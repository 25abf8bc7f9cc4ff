//! The part of the store's interface that grants.

use crate::{
    access::{Access, quoted},
    grant,
    options::PostgresOptions,
    store::PostgresStore,
};
use windlass_core::Result;

impl Access {
    /// The SQL that gives a role this access to the store that a URL names, to be run by the owner of its schema. Does
    /// not connect.
    ///
    /// ```
    /// use windlass_postgres::Access;
    /// # fn main() -> windlass_core::Result<()> {
    /// let sql = Access::Producer.grant_sql("postgres://localhost/app?schema=jobs", "web")?;
    /// assert!(sql.contains(r#"GRANT USAGE ON SCHEMA "jobs" TO "web";"#));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `invalid_option` for a malformed URL, `invalid_name` for what cannot be the name of a role.
    pub fn grant_sql(self, url: &str, role: &str) -> Result<String> {
        let (options, _) = PostgresOptions::default().read_url(url)?;
        Ok(self.script(&options.schema, &quoted(role)?))
    }
}

impl PostgresStore {
    /// Gives a role the access. Safe to repeat; later migrations grant what is new by then.
    ///
    /// ```no_run
    /// use windlass_postgres::Access;
    /// # async fn example(store: windlass_postgres::PostgresStore) -> windlass_core::Result<()> {
    /// store.grant(Access::Producer, "web").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `invalid_name` for what cannot be a role's name, `not_found` for a role that does not exist, `invalid_option`
    /// for the owner of the schema, `permission_denied` when this store's login is not the owner, `schema_missing`.
    pub async fn grant(&self, access: Access, role: &str) -> Result<()> {
        grant::grant(&self.db, access, role).await
    }

    /// Takes the access from a role. What it takes for another access that the role has stays. Whether the role had it.
    ///
    /// # Errors
    /// As [`Self::grant`].
    pub async fn revoke(&self, access: Access, role: &str) -> Result<bool> {
        grant::revoke(&self.db, access, role).await
    }

    /// The roles that were granted access, and which, in order.
    ///
    /// # Errors
    /// The database's.
    pub async fn granted(&self) -> Result<Vec<(String, Access)>> {
        grant::granted(&self.db.client("list grants").await?, &self.db.schema).await
    }
}
