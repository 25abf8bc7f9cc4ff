use crate::{Engine, Failure};
use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// When a client closes: at once, or where workers of it run, when the last of them has ended. What one runs could not be settled otherwise, and
/// would run again elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    workers: usize,
    is_due: bool,
}

impl Closing {
    /// Keeps the client open for a worker until what this gives is dropped.
    pub(crate) fn held(&self, engine: &Engine, client: &windlass::Client) -> Held {
        self.state().workers += 1;
        Held { closing: self.clone(), engine: engine.clone(), client: client.clone(), has_left: false }
    }

    /// Whether it is to be closed now; else the last worker does it.
    pub(crate) fn is_now(&self) -> bool {
        let mut state = self.state();
        state.is_due = state.workers > 0;
        !state.is_due
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One worker's hold of its client.
pub(crate) struct Held {
    closing: Closing,
    engine: Engine,
    client: windlass::Client,
    has_left: bool,
}

impl Held {
    /// Lets go of it. What is closed by that is closed when this returns: a test removes its database next.
    pub(crate) async fn end(mut self) {
        if self.leave() {
            self.client.close().await;
        }
    }

    /// Whether it is to be closed now.
    fn leave(&mut self) -> bool {
        if mem::replace(&mut self.has_left, true) {
            return false;
        }
        let mut state = self.closing.state();
        state.workers -= 1;
        state.workers == 0 && mem::take(&mut state.is_due)
    }
}

impl Drop for Held {
    /// Of a worker that did not start.
    fn drop(&mut self) {
        if self.leave() {
            let client = self.client.clone();
            let close = async move {
                client.close().await;
                Ok::<_, Failure>(())
            };
            // A fork has no connection of its own to close.
            let _ = self.engine.start(close, |_| ());
        }
    }
}
