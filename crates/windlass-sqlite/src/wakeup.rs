//! Waking idle workers. Within a process the writer's commit does it, across all handles of one file; other
//! processes' commits are noticed by polling `PRAGMA data_version`, which reads shared memory only.
//!
//! What counts is the sequence: it moves exactly when something was appended, a job was put aside without a handler,
//! or a queue was resumed.
//! Heartbeats, claims and settlements of others wake nobody.

use crate::{
    SqliteOptions, connect,
    error::Outcome,
    fork::{Connected, Use},
    identity::Ours,
};
use async_trait::async_trait;
use rusqlite::Connection;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock, Mutex, PoisonError, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};
use windlass_core::{OnRequest, OnSchedules, Wake, Wakeup, WorkerId};

/// The first look at other processes' writes after going idle.
pub(crate) const POLL_FIRST: Duration = Duration::from_millis(1);
/// The longest pause between two looks: 40 a second, a few microseconds each.
pub(crate) const POLL_LAST: Duration = Duration::from_millis(25);

/// How often to look whether another process asked for something.
const REQUESTS_POLL: Duration = Duration::from_millis(40);

/// The signal of one file, shared by every store of this process that has it open.
pub(crate) struct Signal {
    appended: watch::Sender<i64>,
    /// Moves when a call of this process ended jobs.
    pub(crate) ended: watch::Sender<()>,
    /// Told when a heartbeat has something to say.
    on_request: Mutex<Vec<Weak<Told>>>,
    /// Told when schedules changed.
    on_schedules: Mutex<Vec<Weak<ToldOfSchedules>>>,
}

type Told = dyn Fn(Option<WorkerId>) + Send + Sync;
type ToldOfSchedules = dyn Fn() + Send + Sync;

/// By process, too: what a fork has of its parent's nobody moves.
type Signals = HashMap<(u32, PathBuf), Weak<Signal>>;

static SIGNALS: LazyLock<Mutex<Signals>> = LazyLock::new(Mutex::default);

impl Signal {
    /// The signal of the file with this canonical path.
    pub(crate) fn of(path: &Path) -> Arc<Self> {
        let mut signals = SIGNALS.lock().unwrap_or_else(PoisonError::into_inner);
        signals.retain(|_, signal| signal.strong_count() > 0);
        let here = (std::process::id(), path.to_owned());
        if let Some(signal) = signals.get(&here).and_then(Weak::upgrade) {
            return signal;
        }
        let signal = Arc::new(Self {
            appended: watch::Sender::new(0),
            ended: watch::Sender::new(()),
            on_request: Mutex::default(),
            on_schedules: Mutex::default(),
        });
        signals.insert(here, Arc::downgrade(&signal));
        signal
    }

    /// A commit moved the sequence to `next`.
    pub(crate) fn appended(&self, next: i64) {
        self.appended.send_replace(next);
    }

    /// A heartbeat has something to say.
    pub(crate) fn requested(&self) {
        there(&self.on_request).iter().for_each(|told| told(None));
    }

    /// Schedules were declared, removed or paused.
    pub(crate) fn schedules_changed(&self) {
        there(&self.on_schedules).iter().for_each(|told| told());
    }
}

/// Those who are still there; the lock is free when they are called.
fn there<T: ?Sized>(all: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|told| told.strong_count() > 0);
    all.iter().filter_map(Weak::upgrade).collect()
}

/// A connection with the number of its opening, and what ends after it.
type Open = (Connection, i64, Ours, Use);

/// The eye on other processes: a connection of its own, since `data_version` tells of *other* connections.
pub(crate) struct Watcher {
    path: PathBuf,
    options: SqliteOptions,
    open: Mutex<Option<Open>>,
    openings: AtomicI64,
}

impl Watcher {
    pub(crate) fn new(path: PathBuf, options: SqliteOptions) -> Self {
        Self {
            path,
            options: SqliteOptions { busy_timeout: Duration::ZERO, ..options },
            open: Mutex::default(),
            openings: AtomicI64::new(0),
        }
    }

    /// A number that is another one after any other connection's commit: SQLite counts them anew for each connection. `None` when it cannot be read right now.
    pub(crate) fn data_version(&self) -> Option<i64> {
        self.look("PRAGMA data_version").map(|(opening, version)| opening << 32 | version)
    }

    /// The next number of the sequence, without those that are no sign of work.
    fn sequence(&self) -> Option<i64> {
        self.ask("SELECT next_sequence - handed FROM log_state")
    }

    /// Two numbers, of which one grows with every request to a worker.
    fn last_request(&self) -> Option<(i64, i64)> {
        self.ask("SELECT coalesce(max(n), 0) FROM cancel_request")
            .zip(self.ask("SELECT requests FROM log_state"))
    }

    /// Grows with every change of schedules.
    fn schedule_changes(&self) -> Option<i64> {
        self.ask("SELECT changes FROM schedule_counter")
    }

    /// Tells of requests that other processes make, and of schedules that they change.
    async fn watch_requests(self: Arc<Self>, told: Weak<Told>, signal: Weak<Signal>) {
        let (mut seen, mut last, mut last_change) = (None, (0, 0), None);
        while let Some(told) = told.upgrade() {
            let version = self.data_version();
            if version.is_some() && version != seen {
                let (requests, changes) = (self.last_request(), self.schedule_changes());
                // What could not be read now is read next time.
                if requests.is_some() && changes.is_some() {
                    seen = version;
                }
                let now = requests.unwrap_or(last);
                if now.0 > last.0 || now.1 > last.1 {
                    told(None);
                }
                last = now;
                let change = changes.or(last_change);
                if change != last_change {
                    signal.upgrade().into_iter().for_each(|signal| signal.schedules_changed());
                }
                last_change = change;
            }
            drop(told);
            sleep(REQUESTS_POLL).await;
        }
    }

    fn ask(&self, sql: &str) -> Option<i64> {
        self.look(sql).map(|(_, answer)| answer)
    }

    /// The answer, and the number of the opening of the connection that gave it. Microseconds of work on mapped memory, so it runs in place; nobody waits for the lock.
    fn look(&self, sql: &str) -> Option<(i64, i64)> {
        let mut open = self.open.try_lock().ok()?;
        match self.ask_open(&mut open, sql) {
            Ok(answer) => answer,
            // What an older schema does not have nobody has changed there.
            Err(error) if error.is_of_schema() => Some((0, 0)),
            Err(_) => {
                *open = None;
                None
            }
        }
    }

    /// `None` while the process is about to fork.
    fn ask_open(&self, open: &mut Option<Open>, sql: &str) -> Outcome<Option<(i64, i64)>> {
        if open.is_none() {
            let Some(using) = Use::begin()? else { return Ok(None) };
            let ours = Ours::check(&self.path)?;
            let opening = self.openings.fetch_add(1, Ordering::Relaxed);
            *open = Some((connect::reader(&self.path, &self.options)?, opening, ours, using));
        }
        let Some((conn, opening, ..)) = open else { return Ok(None) };
        let answer = conn.prepare_cached(sql)?.query_one([], |row| row.get(0))?;
        Ok(Some((*opening, answer)))
    }
}

impl Connected for Watcher {
    fn disconnect(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// One worker's way to wait.
pub(crate) struct SqliteWakeup {
    watcher: Arc<Watcher>,
    appended: watch::Receiver<i64>,
    /// The process-wide entry.
    signal: Arc<Signal>,
    told: Option<OnRequest>,
    told_of_schedules: Option<OnSchedules>,
    /// Data version and sequence when armed.
    seen: Option<(i64, i64)>,
    armed: bool,
}

impl SqliteWakeup {
    pub(crate) fn new(watcher: Arc<Watcher>, signal: Arc<Signal>) -> Self {
        let appended = signal.appended.subscribe();
        Self { watcher, appended, signal, told: None, told_of_schedules: None, seen: None, armed: false }
    }

    /// Whether another process appended since [`Wakeup::arm`]. Unknown counts as yes: a false hint costs one
    /// claim, a missed one costs latency.
    fn appended_elsewhere(&mut self) -> bool {
        let Some((version, sequence)) = self.seen else { return true };
        match self.watcher.data_version() {
            Some(now) if now == version => false,
            Some(now) => {
                self.seen = Some((now, sequence));
                self.watcher.sequence() != Some(sequence)
            }
            // Another wakeup of this store is asking right now.
            None => false,
        }
    }
}

#[async_trait]
impl Wakeup for SqliteWakeup {
    async fn arm(&mut self) {
        self.appended.mark_unchanged();
        self.seen = self.watcher.data_version().zip(self.watcher.sequence());
        self.armed = true;
    }

    async fn wait(&mut self, timeout: Duration) -> Wake {
        let end = Instant::now() + timeout;
        let mut pause = POLL_FIRST;
        loop {
            let next = end.min(Instant::now() + pause);
            match timeout_at(next, self.appended.changed()).await {
                Ok(Ok(())) if self.armed => return Wake::Hint,
                // Not armed: wakes are not announced to this worker.
                Ok(_) => continue,
                Err(_) if Instant::now() >= end => return Wake::Timeout,
                Err(_) if self.armed && self.appended_elsewhere() => return Wake::Hint,
                Err(_) => pause = (pause * 2).min(POLL_LAST),
            }
        }
    }

    fn disarm(&mut self) {
        self.armed = false;
    }

    /// Within a process the store that asks tells; other processes' requests are looked for until the wake-up is dropped.
    fn on_request(&mut self, told: OnRequest) {
        self.signal.on_request.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&told));
        let (told_here, signal) = (Arc::downgrade(&told), Arc::downgrade(&self.signal));
        tokio::spawn(Arc::clone(&self.watcher).watch_requests(told_here, signal));
        self.told = Some(told);
    }

    /// Other processes' changes are found where requests are.
    fn on_schedules(&mut self, told: OnSchedules) {
        self.signal.on_schedules.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&told));
        self.told_of_schedules = Some(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new connection counts anew.
    #[test]
    fn what_was_committed_while_no_connection_was_open_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let file = Connection::open(&path).unwrap();
        file.pragma_update(None, "application_id", crate::identity::APPLICATION_ID).unwrap();
        file.query_one("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        let watcher = Watcher::new(path, SqliteOptions::default());
        let before = watcher.data_version();
        assert!(before.is_some() && watcher.data_version() == before);
        watcher.disconnect();
        file.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        assert_ne!(watcher.data_version(), before);
    }

    /// Neither a column nor a table.
    #[test]
    fn nobody_changes_what_an_older_schema_does_not_have() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let file = Connection::open(&path).unwrap();
        file.pragma_update(None, "application_id", crate::identity::APPLICATION_ID).unwrap();
        file.execute_batch(
            "CREATE TABLE cancel_request (n INTEGER); CREATE TABLE log_state (handed INTEGER)",
        )
        .unwrap();
        let watcher = Watcher::new(path, SqliteOptions::default());
        assert_eq!((watcher.last_request(), watcher.schedule_changes()), (Some((0, 0)), Some(0)));
        assert!(watcher.open.lock().unwrap().is_some(), "it goes on with this connection");
    }
}
