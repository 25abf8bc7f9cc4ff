use crate::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Notify;

/// How the executors tell the two loops beside them that there is something to do, at the price of one
/// load per job while nobody listens.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    claimer: Notify,
    settler: Notify,
    sharer: Notify,
    /// Jobs were claimed: some may wait for a place.
    claimed: Notify,
    settler_waits_for: AtomicU8,
    /// A queue runner that is closed has no running job any more.
    idle: Notify,
}

/// What the settler waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Await {
    /// It is at work and will look by itself.
    Nothing,
    /// A claim that is finished as a whole.
    Claim,
    /// Any finished job.
    Job,
}

impl Signals {
    /// Called after a finished job was entered in its open claim, outside the lock.
    pub(crate) fn finished(&self, whole_claim: bool) {
        let awaited = self.settler_waits_for.load(Ordering::SeqCst);
        let any = !cfg!(feature = "bug_lost_wakeup");
        if (awaited == Await::Job as u8 && any) || (awaited == Await::Claim as u8 && whole_claim) {
            self.wake_settler();
        }
    }

    pub(crate) fn wake_settler(&self) {
        self.settler_waits_for.store(Await::Nothing as u8, Ordering::SeqCst);
        self.settler.notify_one();
    }

    /// Announces what the settler waits for. It must look at all open claims once more before it waits, so
    /// that what was entered before is seen.
    pub(crate) fn announce(&self, awaited: Await) {
        self.settler_waits_for.store(awaited as u8, Ordering::SeqCst);
    }

    pub(crate) async fn settler_woken(&self) {
        self.settler.notified().await;
    }

    /// Demand changed, or the epoch did.
    pub(crate) fn wake_claimer(&self) {
        self.claimer.notify_one();
    }

    pub(crate) async fn claimer_woken(&self) {
        self.claimer.notified().await;
    }

    /// Something may have to be said to the store about limits.
    pub(crate) fn wake_sharer(&self) {
        self.sharer.notify_one();
    }

    pub(crate) async fn sharer_woken(&self) {
        self.sharer.notified().await;
    }

    pub(crate) fn note_claimed(&self) {
        self.claimed.notify_one();
    }

    pub(crate) async fn claimed(&self) {
        self.claimed.notified().await;
    }

    pub(crate) fn became_idle(&self) {
        self.idle.notify_one();
    }

    pub(crate) async fn idle(&self) {
        self.idle.notified().await;
    }
}
