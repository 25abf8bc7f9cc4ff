use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};
use tracing::warn;

/// How many are remembered; of more nothing is said.
const MOST: usize = 100;

/// The kinds of jobs that this worker met and has no handler for, each told of once.
#[derive(Debug, Default)]
pub(crate) struct UnknownKinds(Mutex<HashSet<Arc<str>>>);

impl UnknownKinds {
    pub(crate) fn note(&self, kind: &Arc<str>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST && known.insert(Arc::clone(kind)) {
            warn!(%kind, "this worker has no handler for jobs of this kind; they wait for one that has");
        }
    }
}
