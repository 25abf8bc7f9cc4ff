use crate::Client;
use windlass_core::{Error, ErrorKind, Result};
use windlass_postgres::{Access, PostgresStore};

/// What other roles of the database may do. Only for a client that connects as the owner of the schema, which is who
/// migrated it.
impl Client {
    /// Gives a role of PostgreSQL what producers, workers, viewers or operators need, and nothing else. Safe to repeat; later
    /// migrations grant what is new by then.
    ///
    /// ```no_run
    /// use windlass::{Access, Client};
    /// # async fn example() -> windlass::Result<()> {
    /// let owner = Client::connect("postgres://owner@localhost/app").await?;
    /// owner.migrate().await?;
    /// owner.grant(Access::Producer, "web").await?;
    /// owner.grant(Access::Worker, "mailer").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`] for what cannot be a role's name, [`ErrorKind::NotFound`] for a role that does not exist,
    /// [`ErrorKind::InvalidOption`] for the owner itself, [`ErrorKind::PermissionDenied`] when this client is not the owner,
    /// [`ErrorKind::SchemaMissing`] before the first migration, [`ErrorKind::Unsupported`] when the store is not PostgreSQL.
    pub async fn grant(&self, access: Access, role: &str) -> Result<()> {
        self.store_of_roles()?.grant(access, role).await
    }

    /// Takes from a role what [`Self::grant`] gave; what it needs for another access that it was granted stays. Whether it had
    /// been granted.
    ///
    /// # Errors
    /// As [`Self::grant`].
    pub async fn revoke(&self, access: Access, role: &str) -> Result<bool> {
        self.store_of_roles()?.revoke(access, role).await
    }

    /// Which roles were granted what, in order of their names.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when the store is not PostgreSQL, or the store's.
    pub async fn granted(&self) -> Result<Vec<(String, Access)>> {
        self.store_of_roles()?.granted().await
    }

    fn store_of_roles(&self) -> Result<&PostgresStore> {
        self.postgres.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "roles are PostgreSQL's; who may use a SQLite store is up to the permissions of its file and folder",
            )
        })
    }
}
