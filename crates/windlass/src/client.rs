//! The client: a handle on a store. What it does is in the modules below, by what the calls are about.

mod acting;
mod audit;
mod control;
mod enqueue;
mod inspect;
mod marks;
mod policy;

pub use enqueue::Enqueued;
pub use marks::Mark;

use crate::waiting::Waiting;
use std::{fmt, sync::Arc};
use windlass_core::{MigrationReport, Result, Store};

/// Enqueues jobs and looks after them. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Store>,
    waiting: Waiting,
    /// Whom it acts for.
    actor: Option<Arc<str>>,
    pub(crate) keyring: Option<crate::encryption::Keyring>,
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "nobody can give any"))]
    pub(crate) traces: Option<crate::traces::Traces>,
    #[cfg(feature = "postgres")]
    pub(crate) postgres: Option<Arc<windlass_postgres::PostgresStore>>,
    #[cfg(feature = "testing")]
    pub(crate) memory: Option<windlass_memory::MemoryStore>,
}

impl Client {
    /// A client of a store that you made yourself.
    pub fn from_store(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            waiting: Waiting::default(),
            actor: None,
            keyring: None,
            traces: None,
            #[cfg(feature = "postgres")]
            postgres: None,
            #[cfg(feature = "testing")]
            memory: None,
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn from_postgres(store: windlass_postgres::PostgresStore) -> Self {
        let postgres = Arc::new(store);
        let store = Arc::<windlass_postgres::PostgresStore>::clone(&postgres);
        Self { postgres: Some(postgres), ..Self::from_store(store) }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn from_memory(store: windlass_memory::MemoryStore) -> Self {
        Self { memory: Some(store.clone()), ..Self::from_store(Arc::new(store)) }
    }

    /// Whom it acts for, where that is [somebody](Self::acting_as).
    pub fn actor(&self) -> Option<&str> {
        self.actor.as_deref()
    }

    /// The store behind this client.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Creates or upgrades the store's schema. Safe to repeat and to run from several processes at once.
    ///
    /// # Errors
    /// When the store refuses, or is newer than this build.
    pub async fn migrate(&self) -> Result<MigrationReport> {
        self.store.migrate().await
    }

    /// Closes connections and files. Let calls that are under way end first, and make none afterwards: they may fail. Who waits for a job by
    /// [`wait`](Self::wait) is told that it was closed.
    pub async fn close(&self) {
        self.waiting.end().await;
        self.store.close().await;
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
