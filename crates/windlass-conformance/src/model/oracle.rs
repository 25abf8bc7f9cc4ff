use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};
use windlass_core::{
    Claim, ClaimRef, ClaimedJob, Completion, EnqueuedUnique, Exception, JobId, JobRecord, JobReport, JobSet,
    JobState, JobStore, NewJob, ReportRequest, Reported, RescueReport, Result, SettleReply, SettleRequest,
    Store, WorkerId, WorkerSpec,
};
use windlass_memory::MemoryStore;

/// The model: a store in memory that is asked the same, and what it calls the things of the store under test.
/// Everything outside speaks of the latter.
#[derive(Default)]
pub(super) struct Oracle {
    pub(super) store: MemoryStore,
    /// The oracle's name of each job, also of deleted ones.
    jobs: BTreeMap<JobId, JobId>,
    pub(super) deleted: BTreeSet<JobId>,
    workers: HashMap<WorkerId, WorkerId>,
    claims: HashMap<ClaimRef, Twin>,
    /// The claim that handed a job out last.
    last: HashMap<JobId, ClaimRef>,
}

/// A claim of the oracle.
struct Twin {
    reference: ClaimRef,
    positions: BTreeMap<JobId, i64>,
}

impl Oracle {
    pub(super) fn ids(&self) -> Vec<JobId> {
        self.jobs.keys().filter(|id| !self.deleted.contains(id)).copied().collect()
    }

    /// The store of the oracle, as one that is asked like any other.
    pub(super) fn handle(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    /// The oracle's names of jobs.
    pub(super) fn named(&self, ids: &[JobId]) -> Vec<JobId> {
        ids.iter().map(|id| self.jobs[id]).collect()
    }

    pub(super) fn worker(&self, worker: WorkerId) -> WorkerId {
        self.workers[&worker]
    }

    /// What the oracle knows of a job.
    pub(super) async fn job(&self, id: JobId) -> JobRecord {
        let twin =
            self.jobs.get(&id).unwrap_or_else(|| panic!("the store knows job {id}, nobody enqueued it"));
        self.store.job(*twin).await.expect("look up").expect("the oracle forgets nothing")
    }

    /// What the oracle knows of all jobs.
    pub(super) async fn records(&self) -> BTreeMap<JobId, JobRecord> {
        let mut records = BTreeMap::new();
        for id in self.ids() {
            records.insert(id, self.job(id).await);
        }
        records
    }

    /// Stores the same jobs; the store did the same with each of them.
    pub(super) async fn enqueued(&mut self, jobs: &[NewJob], stored: &[EnqueuedUnique]) {
        let twins = self.store.enqueue_unique(jobs).await.expect("the oracle refuses what the store took");
        assert_eq!(stored.len(), twins.len());
        for (place, (stored, twin)) in stored.iter().zip(twins).enumerate() {
            let told = format!("job {place} of the batch: {stored:?}, oracle: {twin:?}");
            assert_eq!(stored.conflict, twin.conflict, "{told}");
            match self.jobs.get(&stored.id) {
                Some(known) => assert!(*known == twin.id && stored.conflict.is_some(), "{told}"),
                None => {
                    assert!(self.jobs.values().all(|known| *known != twin.id), "{told}");
                    self.jobs.insert(stored.id, twin.id);
                }
            }
        }
    }

    pub(super) async fn registered(&mut self, worker: WorkerId, spec: &WorkerSpec) {
        let twin = self.store.register(spec).await.expect("register").worker;
        assert!(self.workers.insert(worker, twin).is_none(), "worker {worker} was there before");
    }

    /// Hands out what the store did, which may choose among jobs of one priority.
    pub(super) fn claimed(&mut self, worker: WorkerId, claim: &Claim) {
        let ids: Vec<_> = claim.jobs.iter().map(|job| job.id).collect();
        let twin = self.store.claim_these(self.worker(worker), &self.named(&ids));
        let twin = twin.unwrap_or_else(|error| panic!("{claim:?}: {error}"));
        for (job, same) in claim.jobs.iter().zip(&twin.jobs) {
            assert_eq!(handed_out(job), handed_out(same), "what the worker gets of job {}", job.id);
            self.last.insert(job.id, claim.reference);
        }
        let positions = ids.into_iter().zip(twin.jobs.iter().map(|job| job.position)).collect();
        let twin = Twin { reference: twin.reference, positions };
        assert!(self.claims.insert(claim.reference, twin).is_none(), "{:?} given twice", claim.reference);
    }

    /// The ids of a worker's jobs, by claim.
    pub(super) async fn held_by(&self, worker: WorkerId) -> BTreeMap<ClaimRef, Vec<JobId>> {
        let mut held = BTreeMap::<_, Vec<_>>::new();
        let holder = Some(self.worker(worker));
        for (id, record) in self.records().await {
            if record.state == JobState::Running && record.claimed_by == holder {
                held.entry(self.last[&id]).or_default().push(id);
            }
        }
        held
    }

    pub(super) fn was_handed_out(&self, id: JobId) -> bool {
        self.last.contains_key(&id)
    }

    /// The claim that holds a job.
    pub(super) fn claim_of(&self, id: JobId) -> ClaimRef {
        self.last[&id]
    }

    pub(super) async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        let completion = |completion: &Completion| Completion {
            claim: self.reference(completion.claim),
            jobs: self.set(completion),
            count: completion.count,
        };
        let exception = |exception: &Exception| Exception {
            claim: self.reference(exception.claim),
            job: self.jobs[&exception.job],
            position: self.claims[&exception.claim].positions[&exception.job],
            disposition: exception.disposition.clone(),
        };
        let request = SettleRequest {
            worker: self.worker(request.worker),
            completions: request.completions.iter().map(completion).collect(),
            exceptions: request.exceptions.iter().map(exception).collect(),
        };
        self.store.settle(&request).await
    }

    pub(super) async fn report(&self, request: &ReportRequest) -> Result<Vec<Reported>> {
        let report = |report: &JobReport| JobReport {
            claim: self.reference(report.claim),
            job: self.jobs[&report.job],
            position: self.claims[&report.claim].positions[&report.job],
            ..report.clone()
        };
        let reports = request.reports.iter().map(report).collect();
        self.store.report(&ReportRequest { worker: self.worker(request.worker), reports }).await
    }

    /// A claim that never was is one to the oracle, too.
    fn reference(&self, claim: ClaimRef) -> ClaimRef {
        self.claims.get(&claim).map_or(ClaimRef(0, 0), |twin| twin.reference)
    }

    fn set(&self, completion: &Completion) -> JobSet {
        let (JobSet::Ranges(ranges), Some(twin)) = (&completion.jobs, self.claims.get(&completion.claim))
        else {
            return completion.jobs.clone();
        };
        let named = |id: &&JobId| ranges.iter().any(|(low, high)| (*low..=*high).contains(&id.0));
        let ids = twin.positions.keys().filter(named).map(|id| self.jobs[id].0);
        JobSet::Ranges(ids.map(|id| (id, id)).collect())
    }

    /// Rescues when the leases of the dead, and no others, have ended.
    pub(super) async fn rescue(&self, rescuer: WorkerId, lease: Duration) -> RescueReport {
        self.store.clock().advance(lease * 2);
        self.store.rescue(self.worker(rescuer)).await.expect("rescue")
    }
}

/// All that a worker is told of a job; of the time that it may still wait only whether there is any.
fn handed_out(job: &ClaimedJob) -> impl PartialEq + std::fmt::Debug {
    let attributes = job.attributes.as_deref().cloned().map(|attributes| {
        let expires = attributes.expires_at.is_some();
        (windlass_core::Attributes { expires_at: None, ..attributes }.to_json(), expires)
    });
    let counts = (job.attempt, job.max_attempts, job.crash_count);
    (counts, job.kind.clone(), job.args.clone(), attributes, job.expires_in.map(|left| left.is_zero()))
}
