//! Forks of this process: a child has the threads' locks as they were, and none of the threads. So at a fork no thread is in the midst of what a child
//! does, too: making its own [`Engine`](crate::Engine), and using SQLite ([`windlass::fork`]).

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread::sleep,
    time::{Duration, Instant},
};

/// The pause between two looks whether a fork is over, or may begin.
const PAUSE: Duration = Duration::from_millis(1);
/// A fork waits no longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many forks are about to happen.
static FORKS: AtomicUsize = AtomicUsize::new(0);
/// How many threads are in the midst of something.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// While it is there, this process does not fork.
pub struct Undivided(());

impl Undivided {
    /// Waits while the process is about to fork.
    pub fn begin() -> Self {
        loop {
            if let Some(undivided) = Self::now() {
                return undivided;
            }
            sleep(PAUSE);
        }
    }

    /// The same, unless the process is about to fork: for who may have what the fork waits for.
    pub fn now() -> Option<Self> {
        INSIDE.fetch_add(1, SeqCst);
        let undivided = Self(());
        (FORKS.load(SeqCst) == 0).then_some(undivided)
    }
}

impl Drop for Undivided {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, SeqCst);
    }
}

/// To be called before a fork, and one of the other two after it, as with `pthread_atfork(3)`.
pub fn prepare() {
    FORKS.fetch_add(1, SeqCst);
    let end = Instant::now() + PATIENCE;
    while INSIDE.load(SeqCst) > 0 && Instant::now() < end {
        sleep(PAUSE);
    }
    windlass::fork::prepare();
}

/// After it, in the process that forked.
pub fn parent() {
    windlass::fork::parent();
    FORKS.fetch_sub(1, SeqCst);
}

/// After it, in the new process.
pub fn child() {
    windlass::fork::child();
    FORKS.store(0, SeqCst);
}
