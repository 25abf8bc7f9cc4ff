use crate::{due::Due, lock::lock, open_claims::OpenClaims};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use windlass_core::WorkerId;

/// How long the remembered current segment is used. A writer that uses it too long only delays its removal.
const SEGMENT_TTL: Duration = Duration::from_secs(5);
/// How long definitions of an older program are taken for what is there.
const OLDER_TTL: Duration = Duration::from_secs(60);

/// What this process remembers of the database, across connections and so across failovers. All of it may be
/// stale without harm: any segment may be written, and the open claims of a worker only tell where to look. Lanes
/// are remembered by each [`Session`](crate::session::Session).
#[derive(Default)]
pub(crate) struct Caches {
    segment: AtomicUsize,
    segment_read_at: Mutex<Option<Instant>>,
    open_claims: Mutex<HashMap<WorkerId, OpenClaims>>,
    /// The queues of the workers that registered here: what their wake-up listens for.
    queues: Mutex<HashMap<WorkerId, Vec<String>>>,
    pub(crate) due: Mutex<Due>,
    pub(crate) due_schedules: Mutex<Due>,
    /// How many workers were live at the last look for dead ones.
    live_workers: AtomicUsize,
    /// With which of its kinds of rows a round of housekeeping begins to remove.
    pub(crate) removes_next: AtomicUsize,
    /// Whether replace_unique is told for how long the job has its key.
    pub(crate) replace_is_told: Newer,
    /// Whether edit_job says of a job that it has used its attempts.
    pub(crate) edit_tells_all: Newer,
    /// Whether there is available_now.
    pub(crate) available_now: Newer,
    /// Whether there is act_on.
    pub(crate) act_on: Newer,
}

/// Whether a definition is as programs have it since some time, and when that was read. No program takes that back, and another may migrate.
#[derive(Default)]
pub(crate) struct Newer(Mutex<Option<(bool, Instant)>>);

impl Newer {
    pub(crate) fn known(&self) -> Option<bool> {
        let (is_newer, read_at) = (*lock(&self.0))?;
        (is_newer || read_at.elapsed() < OLDER_TTL).then_some(is_newer)
    }

    pub(crate) fn note(&self, is_newer: bool) {
        *lock(&self.0) = Some((is_newer, Instant::now()));
    }

    fn forget(&self) {
        *lock(&self.0) = None;
    }
}

impl Caches {
    /// The segment to write to, when it was read a short time ago.
    pub(crate) fn segment(&self) -> Option<usize> {
        let read_at = *lock(&self.segment_read_at);
        let fresh = read_at.is_some_and(|at| at.elapsed() < SEGMENT_TTL);
        fresh.then(|| self.segment.load(Ordering::Relaxed))
    }

    pub(crate) fn note_segment(&self, segment: usize) {
        self.segment.store(segment, Ordering::Relaxed);
        *lock(&self.segment_read_at) = Some(Instant::now());
    }

    pub(crate) fn open_claims<T>(&self, worker: WorkerId, act: impl FnOnce(&mut OpenClaims) -> T) -> T {
        act(lock(&self.open_claims).entry(worker).or_default())
    }

    pub(crate) fn forget_worker(&self, worker: WorkerId) {
        lock(&self.open_claims).remove(&worker);
        lock(&self.queues).remove(&worker);
    }

    pub(crate) fn note_queues(&self, worker: WorkerId, queues: &[String]) {
        lock(&self.queues).insert(worker, queues.to_vec());
    }

    /// The queues of all workers of this store.
    pub(crate) fn queues(&self) -> BTreeSet<String> {
        lock(&self.queues).values().flatten().cloned().collect()
    }

    pub(crate) fn note_live_workers(&self, count: usize) {
        self.live_workers.store(count, Ordering::Relaxed);
    }

    pub(crate) fn live_workers(&self) -> usize {
        self.live_workers.load(Ordering::Relaxed)
    }

    /// Reads the segment and the definitions again: the schema may have been made anew.
    pub(crate) fn clear(&self) {
        *lock(&self.segment_read_at) = None;
        for newer in [&self.replace_is_told, &self.edit_tells_all, &self.available_now, &self.act_on] {
            newer.forget();
        }
    }
}
