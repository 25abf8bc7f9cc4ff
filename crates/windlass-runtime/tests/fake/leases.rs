use super::{
    history::{What, Why},
    model::{Live, Model},
};
use windlass_core::{
    Heartbeat, JobId, JobState, JobStore, Load, Registration, RescueReport, Result, WorkerId, WorkerSpec,
};
use windlass_memory::Move;

impl Model {
    pub fn register(&mut self, client: usize, spec: &WorkerSpec) -> Result<Registration> {
        let registration = self.run(async |store| store.register(spec).await).0?;
        let (worker, lease) = (registration.worker, spec.lease);
        self.registered.push(worker);
        self.live.insert(worker, Live { client, suspect: None });
        self.history.note(client, What::Registered { worker, lease });
        Ok(registration)
    }

    pub fn worker(&self, worker: WorkerId) -> Option<&Live> {
        self.live.get(&worker)
    }

    /// How many registrations are live.
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    pub fn heartbeat(&mut self, client: usize, worker: WorkerId, load: Load) -> Result<Heartbeat> {
        self.heartbeats += 1;
        let mut heartbeat = self.run(async |store| store.heartbeat_with(worker, load).await).0?;
        heartbeat.register_anew = self.outdated.contains(&worker);
        self.history.note(client, What::Renewed(worker));
        Ok(heartbeat)
    }

    pub fn announce_suspect(&mut self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        self.run(async |store| store.suspect(worker, job).await).0?;
        self.suspects.push(job);
        if let Some(live) = self.live.get_mut(&worker) {
            live.suspect = job;
        }
        Ok(())
    }

    /// The job that was announced last, unless that is over.
    pub fn suspect(&self) -> Option<JobId> {
        self.suspects.last().copied().flatten()
    }

    pub fn deregister(&mut self, worker: WorkerId) -> Result<()> {
        self.deregistered.push(worker);
        self.hand_back(worker, Why::Deregistered)
    }

    /// Takes the lease away; its jobs are available again.
    pub fn end_lease(&mut self, worker: WorkerId) {
        self.hand_back(worker, Why::Taken).unwrap();
    }

    fn hand_back(&mut self, worker: WorkerId, why: Why) -> Result<()> {
        let (done, moves) = self.run(async |store| store.deregister(worker).await);
        self.ended(worker, why, &moves);
        done
    }

    /// Takes the jobs of workers whose lease ran out.
    pub fn rescue(&mut self, rescuer: WorkerId) -> Result<RescueReport> {
        if !self.leases_run_out {
            return Ok(RescueReport::default());
        }
        let (report, moves) = self.run(async |store| store.rescue(rescuer).await);
        let report = report?;
        for worker in &report.workers {
            self.ended(*worker, Why::Overdue, &moves);
        }
        for moved in moves.iter().filter(|moved| moved.to == JobState::Discarded) {
            self.history.note(0, What::CrashLoop(moved.job));
        }
        Ok(report)
    }

    /// A registration ended, and the leases with it.
    fn ended(&mut self, worker: WorkerId, why: Why, moves: &[Move]) {
        let Some(Live { client, .. }) = self.live.remove(&worker) else { return };
        self.history.note(client, What::LeaseEnded { worker, why });
        for lease in moves.iter().filter_map(|moved| moved.lease).filter(|lease| lease.worker == worker) {
            self.history.note(client, What::Released { lease: lease.into(), why });
        }
        let its = |moved: &&Move| moved.lease.is_some_and(|lease| lease.worker == worker);
        for moved in moves.iter().filter(its).filter(|moved| moved.to == JobState::Cancelled) {
            self.history.note(0, What::CancelledByHand(moved.job));
        }
    }
}
