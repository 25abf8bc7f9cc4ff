use crate::{
    caches::Caches,
    connection::Connection,
    deadline::Patience,
    options::PostgresOptions,
    pools::{Pools, Role},
    server::Server,
    sql::render,
    texts::Texts,
    turns::by_turns,
};
use std::sync::Arc;
use windlass_core::Result;

/// What every call works on: the way to the database, its statements, and what is remembered of it. Cheap to
/// clone.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) pools: Arc<Pools>,
    pub(crate) schema: Arc<str>,
    pub(crate) texts: Arc<Texts>,
    pub(crate) caches: Arc<Caches>,
    /// Whether housekeeping marks deploys.
    pub(crate) marks_deploys: bool,
    /// Whether what is done to several jobs waits for those that somebody has.
    pub(crate) is_patient: bool,
}

impl Database {
    /// Connections open when they are needed.
    pub(crate) fn new(server: Server, options: &PostgresOptions) -> Result<Self> {
        Ok(Self {
            pools: Arc::new(Pools::new(server, options)?),
            schema: (&*options.schema).into(),
            texts: Arc::new(Texts::new(&options.schema)),
            caches: Arc::default(),
            marks_deploys: options.marks_deploys,
            is_patient: true,
        })
    }

    /// SQL with the schema's name filled in.
    pub(crate) fn sql(&self, text: &str) -> String {
        render(text, &self.schema)
    }

    /// For a short call of a client; `what` names it in messages.
    pub(crate) async fn client(&self, what: &'static str) -> Result<Connection> {
        Connection::of(&self.pools, Role::Clients, what, Patience::Call).await
    }

    /// For a call of a client that carries so many jobs.
    pub(crate) async fn client_for(&self, what: &'static str, jobs: usize) -> Result<Connection> {
        Connection::of(&self.pools, Role::Clients, what, Patience::Batch(jobs)).await
    }

    /// For a short call of a client that may have to wait for a transaction of somebody else: see [`by_turns`].
    pub(crate) async fn by_turns<T, F: Future<Output = Result<T>>>(
        &self,
        what: &'static str,
        run: impl Fn(Connection) -> F,
    ) -> Result<T> {
        let run = &run;
        by_turns(what, self.pools.call_timeout(), |turn| async move {
            let mut connection = self.client(what).await?;
            connection.turn = Some(turn);
            run(connection).await
        })
        .await
    }

    pub(crate) async fn claims(&self) -> Result<Connection> {
        Connection::of(&self.pools, Role::Claims, "claim", Patience::Call).await
    }

    /// For settlements and whatever else of a worker is short and cannot wait: its heartbeats, above all.
    pub(crate) async fn settles(&self, what: &'static str) -> Result<Connection> {
        Connection::of(&self.pools, Role::Settles, what, Patience::Call).await
    }

    /// For registration, rescue, promotion and housekeeping, some of which takes minutes.
    pub(crate) async fn upkeep(&self, what: &'static str) -> Result<Connection> {
        Connection::of(&self.pools, Role::Upkeep, what, Patience::Call).await
    }

    /// For what handlers report: it may be large, and settlements should not wait for it.
    pub(crate) async fn reports(&self, what: &'static str) -> Result<Connection> {
        Connection::of(&self.pools, Role::Reports, what, Patience::Call).await
    }

    pub(crate) fn is_pooled_by_transaction(&self) -> bool {
        self.pools.is_pooled_by_transaction()
    }
}
