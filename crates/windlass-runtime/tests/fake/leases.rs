use super::{
    history::{What, Why},
    model::{Model, State},
};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::{Error, ErrorKind, JobId, RescueReport, Result, WorkerId, WorkerSpec};

/// Beyond this count only the suspect of a dead worker is counted.
const INNOCENT_CRASHES: u16 = 2;

/// A registration that is live.
#[derive(Clone, Debug)]
pub struct Worker {
    pub client: usize,
    kinds: Vec<String>,
    lease: Duration,
    renewed: Instant,
    /// Since when it renewed without a break.
    in_touch_since: Instant,
    pub suspect: Option<JobId>,
}

impl Worker {
    pub fn knows(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|known| known == kind)
    }
}

impl Model {
    pub fn register(&mut self, client: usize, spec: &WorkerSpec) -> WorkerId {
        let worker = WorkerId(self.registered.len() as i32 + 1);
        self.registered.push(worker);
        let (kinds, lease) = (spec.kinds.clone(), spec.lease);
        let now = Instant::now();
        let live = Worker { client, kinds, lease, renewed: now, in_touch_since: now, suspect: None };
        self.workers.insert(worker, live);
        self.history.note(client, What::Registered { worker, lease });
        worker
    }

    pub fn worker(&self, worker: WorkerId) -> Option<&Worker> {
        self.workers.get(&worker)
    }

    fn live(&mut self, worker: WorkerId) -> Result<&mut Worker> {
        let lost = || Error::new(ErrorKind::LeaseLost, format!("worker {worker} is not live"));
        self.workers.get_mut(&worker).ok_or_else(lost)
    }

    pub fn check_live(&mut self, worker: WorkerId) -> Result<()> {
        self.live(worker).map(drop)
    }

    /// Like a real store, it renews a lease that ended but was not taken yet.
    pub fn heartbeat(&mut self, worker: WorkerId) -> Result<()> {
        self.heartbeats += 1;
        let live = self.live(worker)?;
        let now = Instant::now();
        if now - live.renewed > live.lease / 2 {
            live.in_touch_since = now;
        }
        live.renewed = now;
        let client = live.client;
        self.history.note(client, What::Renewed(worker));
        Ok(())
    }

    pub fn announce_suspect(&mut self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        self.live(worker)?.suspect = job;
        self.suspect = job;
        self.suspects.push(job);
        Ok(())
    }

    pub fn deregister(&mut self, worker: WorkerId) {
        self.deregistered.push(worker);
        self.end(worker, Why::Deregistered);
    }

    /// Takes the lease away; its jobs are available again.
    pub fn end_lease(&mut self, worker: WorkerId) {
        self.end(worker, Why::Taken);
    }

    fn end(&mut self, worker: WorkerId, why: Why) {
        let Some(Worker { client, .. }) = self.workers.remove(&worker) else { return };
        self.history.note(client, What::LeaseEnded { worker, why });
        for lease in self.held_by(worker) {
            self.release(client, lease, why);
        }
    }

    /// How many registrations are live.
    pub fn live_count(&self) -> usize {
        self.workers.len()
    }

    /// Takes or renews leadership.
    pub fn lead(&mut self, worker: WorkerId, term: Duration) -> bool {
        let now = Instant::now();
        if self.leader.is_some_and(|(leader, until)| leader != worker && until > now) {
            return false;
        }
        self.leader = Some((worker, now + term));
        true
    }

    /// Takes the jobs of workers whose lease ran out.
    pub fn rescue(&mut self, rescuer: WorkerId) -> RescueReport {
        let mut report = RescueReport::default();
        if !self.leases_run_out {
            return report;
        }
        let now = Instant::now();
        let Some(rescuer) = self.workers.get(&rescuer).cloned() else { return report };
        let in_touch = if now - rescuer.renewed > rescuer.lease / 2 { now } else { rescuer.in_touch_since };
        let overdue =
            |worker: &Worker| worker.renewed + worker.lease <= now && in_touch + worker.lease <= now;
        let overdue = self.workers.iter().filter(|(_, worker)| overdue(worker));
        report.workers = overdue.map(|(id, _)| *id).collect();
        for worker in report.workers.clone() {
            let held = self.held_by(worker);
            let suspect = self.workers[&worker].suspect;
            self.end(worker, Why::Overdue);
            report.rescued += held.len() as u64;
            for lease in held {
                let id = JobId(lease.job);
                let job = self.job_mut(id);
                let counts = suspect.map_or(job.crash_count < INNOCENT_CRASHES, |suspect| suspect == id);
                job.crash_count += u16::from(counts);
                if suspect == Some(id) && job.crash_count >= windlass_core::Settings::DEFAULT.max_crashes {
                    self.discard_as_crash_loop(id);
                    report.rescued -= 1;
                    report.discarded += 1;
                }
            }
        }
        let next = self.workers.values().map(|worker| worker.renewed + worker.lease).min();
        report.next_end = next.map(|ends| ends.saturating_duration_since(now));
        report
    }

    fn discard_as_crash_loop(&mut self, id: JobId) {
        self.withdraw(id);
        self.job_mut(id).state = State::Discarded { failed: true };
        self.history.note(0, What::CrashLoop(id));
    }
}
