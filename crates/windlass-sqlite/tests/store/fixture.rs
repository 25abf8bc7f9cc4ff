//! A store on a file of its own, with a clock that tests move.

use jiff::Timestamp;
use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use windlass_core::{
    Args, Claim, ClaimRequest, ClaimedJob, Completion, Disposition, Exception, JobId, JobSet, JobState,
    JobStore, NewJob, QueueDemand, SettleReply, SettleRequest, Settled, WorkerId, WorkerSpec,
};
use windlass_sqlite::{Clock, SqliteOptions, SqliteStore};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) struct Fixture {
    pub(crate) store: SqliteStore,
    pub(crate) folder: TempDir,
    micros: Arc<AtomicI64>,
}

impl Deref for Fixture {
    type Target = SqliteStore;

    fn deref(&self) -> &SqliteStore {
        &self.store
    }
}

/// A claim with one of its jobs.
pub(crate) struct Held {
    pub(crate) claim: windlass_core::ClaimRef,
    pub(crate) job: ClaimedJob,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let micros = Arc::new(AtomicI64::new(1_800_000_000_000_000));
        let store = open(&folder, &micros);
        Self { store, folder, micros }
    }

    /// Another handle on the same file.
    pub(crate) fn another(&self) -> SqliteStore {
        open(&self.folder, &self.micros)
    }

    /// Another handle, for which time passes: each of its transactions is a microsecond after the one before.
    pub(crate) fn ticking(&self) -> SqliteStore {
        let micros = Arc::clone(&self.micros);
        open_with(&self.folder, move || micros.fetch_add(1, Ordering::SeqCst))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.micros.fetch_add(by.as_micros() as i64, Ordering::SeqCst);
    }

    /// The clock goes back.
    pub(crate) fn set_back(&self, by: Duration) {
        self.micros.fetch_sub(by.as_micros() as i64, Ordering::SeqCst);
    }

    /// A worker that is in touch with the store from now on, whatever time passes.
    pub(crate) async fn rescuer(&self) -> WorkerId {
        let lease = 1_000_000 * LEASE;
        let spec = WorkerSpec {
            name: "rescuer".into(),
            queues: vec!["default".into()],
            kinds: vec![],
            lease,
            program: Default::default(),
        };
        self.register(&spec).await.unwrap().worker
    }

    pub(crate) async fn worker(&self) -> WorkerId {
        self.worker_for(&[]).await
    }

    pub(crate) async fn worker_for(&self, kinds: &[&str]) -> WorkerId {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let spec = WorkerSpec {
            name: "test".into(),
            queues: vec!["default".into()],
            kinds,
            lease: LEASE,
            program: Default::default(),
        };
        self.register(&spec).await.unwrap().worker
    }

    pub(crate) async fn add(&self, count: usize) -> Vec<JobId> {
        self.enqueue(&jobs(count)).await.unwrap()
    }

    pub(crate) async fn take(&self, worker: WorkerId, limit: u32) -> Vec<Claim> {
        self.claim(&demand(worker, limit)).await.unwrap().claims
    }

    /// Claims exactly one job.
    pub(crate) async fn take_one(&self, worker: WorkerId) -> Held {
        let mut claims = self.take(worker, 1).await;
        assert_eq!(claims.len(), 1, "one job is available");
        let claim = claims.remove(0);
        Held { claim: claim.reference, job: claim.jobs.into_iter().next().unwrap() }
    }

    pub(crate) async fn except(&self, worker: WorkerId, held: &Held, disposition: Disposition) -> Settled {
        let reply = self.settle(&exception(worker, held, disposition)).await.unwrap();
        reply.exceptions[0]
    }

    pub(crate) async fn complete(&self, worker: WorkerId, claim: &Claim) -> SettleReply {
        self.settle(&completion(worker, claim, JobSet::Rest)).await.unwrap()
    }

    pub(crate) async fn state(&self, id: JobId) -> JobState {
        self.job(id).await.unwrap().expect("the job exists").state
    }
}

fn open(folder: &TempDir, micros: &Arc<AtomicI64>) -> SqliteStore {
    let micros = Arc::clone(micros);
    open_with(folder, move || micros.load(Ordering::SeqCst))
}

fn open_with(folder: &TempDir, micros: impl Fn() -> i64 + Send + Sync + 'static) -> SqliteStore {
    let clock = Clock::new(move || Timestamp::from_microsecond(micros()).unwrap());
    SqliteStore::open(&url(folder), SqliteOptions { clock, ..SqliteOptions::default() }).unwrap()
}

pub(crate) fn url(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("jobs.db").display())
}

pub(crate) fn job(kind: &'static str) -> NewJob {
    NewJob::new(kind, Args::parse("{}").unwrap())
}

pub(crate) fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(|n| NewJob::new("test", Args::of(&n).unwrap())).collect()
}

pub(crate) fn demand(worker: WorkerId, limit: u32) -> ClaimRequest {
    ClaimRequest { worker, queues: vec![QueueDemand::new("default", limit)] }
}

pub(crate) fn completion(worker: WorkerId, claim: &Claim, jobs: JobSet) -> SettleRequest {
    let completion = Completion { claim: claim.reference, jobs, count: claim.jobs.len() as u32 };
    SettleRequest { worker, completions: vec![completion], exceptions: vec![] }
}

pub(crate) fn exception(worker: WorkerId, held: &Held, disposition: Disposition) -> SettleRequest {
    let exception =
        Exception { claim: held.claim, job: held.job.id, position: held.job.position, disposition };
    SettleRequest { worker, completions: vec![], exceptions: vec![exception] }
}

pub(crate) fn ids(claims: &[Claim]) -> Vec<JobId> {
    claims.iter().flat_map(|claim| claim.jobs.iter().map(|job| job.id)).collect()
}
