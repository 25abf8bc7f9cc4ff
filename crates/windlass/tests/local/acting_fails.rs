//! What is noted of calls that fail, by a client that acts for somebody.

use std::sync::Arc;
use windlass::{AuditFilter, Client};
use windlass_core::{Error, ErrorKind, Result, Store, wrap_store};

/// A store that answers no pause.
struct Silent {
    store: Arc<dyn Store>,
    kind: ErrorKind,
}

wrap_store! {
    impl JobStore for Silent, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history events status wakeup close]

    async fn pause(&self, _queue: &str, _paused: bool) -> Result<()> {
        Err(Error::new(self.kind, "no answer"))
    }
}

/// A call whose answer was lost may have changed something; one that failed for certain did not.
#[tokio::test]
async fn what_may_have_happened_is_noted_with_its_error() {
    for (kind, noted) in [(ErrorKind::Ambiguous, vec!["ambiguous"]), (ErrorKind::Unavailable, vec![])] {
        let store = Arc::clone(windlass::testing::client().store());
        let client = Client::from_store(Arc::new(Silent { store, kind }));
        let error = client.acting_as("billing").unwrap().pause("mail").await.unwrap_err();
        assert_eq!(error.kind(), kind);
        let page = client.audit(&AuditFilter::default()).await.unwrap();
        let outcomes: Vec<_> = page.entries.iter().map(|record| &*record.entry.outcome).collect();
        assert_eq!(outcomes, noted);
    }
}
