//! Forks of this process. What SQLite believes to have locked is copied into the child, the locks themselves are not: a child that opened a
//! file that its parent has open would wait for ever for a lock that nobody ends, or write where it has no lock. So no connection is open at a
//! fork: whoever forks calls [`prepare`] before, and [`parent`] and [`child`] after it, as with `pthread_atfork(3)`. The Python package does.
//!
//! A store of the parent closes its connections when its callers have their answers, and opens them again for the next call, which waits meanwhile.
//! A child of which nothing was known here is refused if anything was open. Starting another program is no fork in this sense.

use std::{
    process,
    sync::{
        Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst},
    },
    thread::sleep,
    time::{Duration, Instant},
};
use windlass_core::{Error, ErrorKind, Result};

/// The pause between two looks whether a fork is over, or may begin.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);
/// A fork waits no longer for calls to end; then its child cannot use SQLite.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many forks are about to happen.
static FORKS: AtomicUsize = AtomicUsize::new(0);
/// Whether one is between [`prepare`] and what comes after it. Others wait: a child has the locks that other threads had when its own thread forked.
static FORKING: AtomicBool = AtomicBool::new(false);
/// How many connections are open, or being opened.
static USES: AtomicUsize = AtomicUsize::new(0);
/// Whose these are.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static STORES: Mutex<Vec<Weak<dyn Connected>>> = Mutex::new(Vec::new());

/// Has connections.
pub(crate) trait Connected: Send + Sync {
    /// Closes them as soon as what was asked is answered. They are opened again on the next use.
    fn disconnect(&self);
}

/// The right to have a connection open. Whoever has it closes the connection first.
#[derive(Debug)]
pub(crate) struct Use(());

impl Use {
    /// `None` while the process is about to fork.
    ///
    /// # Errors
    /// In a child of a fork at which connections were open.
    pub(crate) fn begin() -> Result<Option<Self>> {
        let here = process::id();
        let before = PROCESS.swap(here, SeqCst);
        if before != here && before != 0 && USES.load(SeqCst) > 0 {
            PROCESS.store(before, SeqCst);
            let why = format!(
                "process {before} had SQLite open when it forked this process, {here}, which cannot use it safely; \
                 open the store after the fork, or start a program of its own"
            );
            return Err(Error::new(ErrorKind::InvalidOption, why));
        }
        USES.fetch_add(1, SeqCst);
        let using = Self(());
        Ok((FORKS.load(SeqCst) == 0).then_some(using))
    }

    /// The same; waits while the process is about to fork.
    pub(crate) fn wait() -> Result<Self> {
        loop {
            match Self::begin()? {
                Some(using) => return Ok(using),
                None => sleep(PAUSE),
            }
        }
    }
}

/// For another connection of the same owner.
impl Clone for Use {
    fn clone(&self) -> Self {
        USES.fetch_add(1, SeqCst);
        Self(())
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        USES.fetch_sub(1, SeqCst);
    }
}

/// Has it disconnected before forks.
pub(crate) fn register(connected: Weak<dyn Connected>) {
    let mut stores = stores();
    stores.retain(|store| store.strong_count() > 0);
    stores.push(connected);
}

fn stores() -> MutexGuard<'static, Vec<Weak<dyn Connected>>> {
    STORES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Before a fork: closes all connections of this process and lets none be opened. Waits for calls that are under way, and for forks of other threads.
pub fn prepare() {
    FORKS.fetch_add(1, SeqCst);
    let end = Instant::now() + PATIENCE;
    while FORKING.swap(true, SeqCst) && Instant::now() < end {
        sleep(PAUSE);
    }
    loop {
        let open: Vec<_> = stores().iter().filter_map(Weak::upgrade).collect();
        open.iter().for_each(|store| store.disconnect());
        if USES.load(SeqCst) == 0 || Instant::now() >= end {
            return;
        }
        sleep(PAUSE);
    }
}

/// After it, in the process that forked.
pub fn parent() {
    FORKING.store(false, SeqCst);
    FORKS.fetch_sub(1, SeqCst);
}

/// After it, in the new process: nothing of its parent's is its own.
pub fn child() {
    FORKING.store(false, SeqCst);
    FORKS.store(0, SeqCst);
    stores().clear();
}
