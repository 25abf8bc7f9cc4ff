use crate::{ending::Ending, epoch::ClaimScope, meter::Begun, turn::Done};
use std::{fmt, future::Future, pin::Pin, sync::Arc};
use windlass_core::Outcome;

/// A lent job for whose outcome no future waits: its executor goes on with other jobs, and whoever hands the outcome in enters
/// it. What only few jobs need, as a grace after they were told to stop, is the affair of a future that is made for them then.
pub(crate) struct Unattended {
    pub(crate) home: Arc<dyn Home>,
    pub(crate) scope: Arc<ClaimScope>,
    pub(crate) ending: Ending,
    pub(crate) begun: Option<Box<Begun>>,
    /// Where its result is entered.
    pub(crate) done: Done,
}

impl fmt::Debug for Unattended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unattended").field("id", &self.ending.id).finish_non_exhaustive()
    }
}

/// The queue runner from which unattended jobs were lent.
pub(crate) trait Home: Send + Sync {
    /// These ended. Called from any thread, outside every lock.
    fn ended(self: Arc<Self>, jobs: Vec<(Box<Unattended>, Outcome)>);

    /// From now on this future waits for that job's outcome.
    fn attend(self: Arc<Self>, job: Box<Unattended>, outcome: Pin<Box<dyn Future<Output = Outcome> + Send>>);
}
