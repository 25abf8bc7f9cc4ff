use crate::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::OnceLock;
use tokio_util::sync::CancellationToken;

/// What tells the handler of one job to stop, apart from all others. Jobs whose handler neither waits nor asks have
/// none; they share the token of their epoch.
#[derive(Debug)]
pub(crate) struct JobSwitch {
    /// Fires when the epoch's does, too.
    pub(crate) token: CancellationToken,
    /// Set when the handler has to end now: the error that its attempt fails with.
    pub(crate) expired: OnceLock<String>,
    cancel_asked: AtomicBool,
    goes_back: AtomicBool,
    offer: AtomicU8,
}

/// Whether the job waits for [somebody](crate::lend) to take it. Its time does not count meanwhile.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Offer {
    No,
    Yes,
    /// And its time limit wants to be polled when that ends.
    Timed,
}

impl JobSwitch {
    pub(crate) fn new(epoch: &CancellationToken) -> Self {
        Self {
            token: epoch.child_token(),
            expired: OnceLock::new(),
            cancel_asked: AtomicBool::new(false),
            goes_back: AtomicBool::new(false),
            offer: AtomicU8::new(Offer::No as u8),
        }
    }

    pub(crate) fn put_on_offer(&self) {
        self.offer.store(Offer::Yes as u8, Ordering::Release);
    }

    /// Somebody took the job. Whether its time limit has to be polled.
    pub(crate) fn take_off_offer(&self) -> bool {
        self.offer.swap(Offer::No as u8, Ordering::AcqRel) == Offer::Timed as u8
    }

    /// Whether the time of the job does not count yet; the caller will be polled when it does.
    pub(crate) fn is_on_offer(&self) -> bool {
        let (yes, timed) = (Offer::Yes as u8, Offer::Timed as u8);
        let before = self.offer.compare_exchange(yes, timed, Ordering::AcqRel, Ordering::Acquire);
        before.unwrap_or_else(|before| before) != Offer::No as u8
    }

    /// Whether somebody wants the job cancelled.
    pub(crate) fn is_cancel_asked(&self) -> bool {
        self.cancel_asked.load(Ordering::Acquire)
    }

    /// Nobody took the job while it was on offer: whatever its handler says, it goes back as if it had not been begun.
    pub(crate) fn give_back(&self) {
        self.goes_back.store(true, Ordering::Release);
    }

    /// Whether it does. One that somebody wants cancelled is cancelled.
    pub(crate) fn goes_back(&self) -> bool {
        self.goes_back.load(Ordering::Acquire) && !self.is_cancel_asked()
    }

    /// Tells the job's handler to stop because the job is to be cancelled; one that is not started will not be.
    pub(crate) fn cancel(&self) {
        self.cancel_asked.store(true, Ordering::Release);
        self.token.cancel();
    }
}
