//! What happens to a connection that does not answer.

use crate::{deadline::Deadline, error::Effect, pools::Pools, session::SessionHandle};
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use windlass_core::{Error, ErrorKind, Result};

/// Watches over one call on one connection.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) handle: Arc<SessionHandle>,
    pub(crate) pools: Arc<Pools>,
    /// The call, for messages.
    pub(crate) what: &'static str,
    pub(crate) deadline: Deadline,
}

impl Guard {
    /// Runs a step of the call. When the deadline passes first, the connection is closed, and so is every idle
    /// one in the pools: when one connection goes silent, others often did too.
    pub(crate) async fn run<T>(
        &self,
        effect: Effect,
        step: Pin<&mut impl Future<Output = Result<T>>>,
    ) -> Result<T> {
        self.handle.asked();
        match self.deadline.await_on(step).await {
            Ok(answer) => {
                self.handle.answered_in(self.pools.generation());
                answer
            }
            Err(limit) => {
                self.handle.abandon(self.pools.server());
                self.pools.invalidate_all();
                Err(self.silent(effect, limit))
            }
        }
    }

    /// For a call that is not to be stopped where its caller gives it up: dropped unless it was [done](Watched::done), it closes the connection.
    pub(crate) fn watch(&self) -> Watched<'_> {
        Watched { guard: self, done: false }
    }

    fn silent(&self, effect: Effect, limit: Duration) -> Error {
        let (kind, so) = match effect {
            Effect::Write => {
                (ErrorKind::Ambiguous, "it may have happened or not: find out before repeating it")
            }
            Effect::Repeatable => (ErrorKind::Unavailable, "it can be repeated"),
        };
        let (what, server) = (self.what, self.pools.server().name());
        Error::new(
            kind,
            format!(
                "{what}: no answer from PostgreSQL at {server} within {limit:?}, connection closed; {so}; \
                 check the server, its locks and the network, or raise call_timeout"
            ),
        )
    }
}

/// A call that closes its connection where it is given up.
pub(crate) struct Watched<'a> {
    guard: &'a Guard,
    done: bool,
}

impl Watched<'_> {
    /// The call ended by itself.
    pub(crate) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if !self.done {
            // What it asked for is not taken back: a lease may be renewed late.
            self.guard.handle.close();
        }
    }
}
