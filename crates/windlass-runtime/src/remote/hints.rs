use std::{fmt, sync::Arc, time::Duration};
use windlass_core::{Store, Wake, Wakeup, WorkerId};

/// What tells workers elsewhere that there may be jobs: one for all of a process.
///
/// [Arm](Self::arm) it, have each of them ask once more, and [wait](Self::wait). A hint may be false, late or missing.
pub struct Hints {
    wakeup: Box<dyn Wakeup>,
    armed: bool,
}

impl Hints {
    /// Begins to listen. `told` is called when a heartbeat of a worker has something to say (`None`: of any), and must not block.
    pub fn new(store: &Arc<dyn Store>, told: impl Fn(Option<WorkerId>) + Send + Sync + 'static) -> Self {
        let mut wakeup = store.wakeup();
        wakeup.on_request(Arc::new(told));
        Self { wakeup, armed: false }
    }

    /// From now on an enqueue gives a hint.
    pub async fn arm(&mut self) {
        if !std::mem::replace(&mut self.armed, true) {
            self.wakeup.arm().await;
        }
    }

    /// Waits for a hint, so long at most; whether one came. Cancel safe.
    pub async fn wait(&mut self, timeout: Duration) -> bool {
        self.wakeup.wait(timeout).await == Wake::Hint
    }

    /// Nobody waits: enqueues need not announce themselves.
    pub fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.wakeup.disarm();
        }
    }
}

impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hints").field("armed", &self.armed).finish_non_exhaustive()
    }
}
