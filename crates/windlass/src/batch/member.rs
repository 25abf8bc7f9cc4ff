use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as Task, Poll, Wake, Waker},
};
use windlass_core::Outcome;
use windlass_runtime::{HandlerFuture, caught};

/// A job on its way through the layers, and back.
pub(super) enum Member {
    Running(HandlerFuture),
    Done(Outcome),
}

impl Member {
    /// Starts it; a panic of a layer is how its attempt fails.
    pub(super) fn start(start: impl FnOnce() -> HandlerFuture) -> Self {
        caught(start).map_or_else(|panic| Self::Done(failed(panic)), Self::Running)
    }

    /// Whether it is done now, and was not before.
    pub(super) fn poll(&mut self, task: &mut Task<'_>) -> bool {
        let Self::Running(running) = self else { return false };
        match caught(|| running.as_mut().poll(task)) {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(outcome)) => *self = Self::Done(outcome),
            Err(panic) => *self = Self::Done(failed(panic)),
        }
        true
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    pub(super) fn into_outcome(self) -> Outcome {
        match self {
            Self::Done(outcome) => outcome,
            Self::Running(_) => failed("its batch ended without it".to_owned()),
        }
    }
}

pub(super) fn failed(error: String) -> Outcome {
    Outcome::Retry { after: None, error }
}

/// Notes that a member wants to be polled, so that all are not polled whenever the function wakes.
pub(super) struct Woken {
    is_woken: AtomicBool,
    batch: Mutex<Option<Waker>>,
}

impl Woken {
    /// All want it.
    pub(super) fn new() -> Self {
        Self { is_woken: AtomicBool::new(true), batch: Mutex::default() }
    }

    /// Who is woken when a member is.
    pub(super) fn set(&self, batch: &Waker) {
        *self.batch.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch.clone());
    }

    /// Whether a member was woken since this was asked last.
    pub(super) fn take(&self) -> bool {
        self.is_woken.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        let batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        batch.into_iter().for_each(Waker::wake);
    }
}
