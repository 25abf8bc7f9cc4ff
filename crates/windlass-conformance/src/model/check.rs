use super::{book::Entry, play::Play};
use crate::steps::*;
use windlass_core::{JobFilter, JobId, JobRecord, JobState};

/// How many jobs are looked up by their id in one check.
const LOOK_UPS: usize = 5;

impl Play {
    /// Compares everything that the store shows with the model.
    pub(super) async fn check(&mut self) {
        self.trace("check".to_owned());
        for queue in 0..self.queues.len() {
            self.check_counts(queue).await;
            self.check_list(queue, None).await;
            let state = JobState::ALL[self.rng.usize(..JobState::ALL.len())];
            self.check_list(queue, Some(state)).await;
        }
        for id in self.some_ids(LOOK_UPS) {
            self.check_job(id).await;
        }
    }

    async fn check_counts(&self, number: usize) {
        let seen = queue(&self.admin, &self.queues[number]).await;
        let of = |state| {
            let entries = self.book.jobs.values();
            entries.filter(|entry| entry.queue == number && entry.stage.state() == state).count() as u64
        };
        let gone = self.book.jobs.values().filter(|job| job.queue == number && self.book.may_be_gone(job));
        let completed = of(JobState::Completed);
        let least = completed - gone.count() as u64;
        assert!((least..=completed).contains(&seen.completed), "{seen:?}: {least} to {completed} completed");
        let expected = [JobState::Available, JobState::Running, JobState::Scheduled, JobState::Retryable];
        let counts = [seen.available, seen.running, seen.scheduled, seen.retryable];
        assert_eq!(counts, expected.map(of), "available, running, scheduled, retryable of {seen:?}");
        let dead = [JobState::Cancelled, JobState::Discarded].map(of);
        assert_eq!([seen.cancelled, seen.discarded], dead, "cancelled, discarded of {seen:?}");
        assert_eq!(seen.paused, self.book.paused[number]);
    }

    async fn check_list(&self, queue: usize, state: Option<JobState>) {
        let name = Some(self.queues[queue].clone());
        let filter = JobFilter { state, queue: name, limit: JobFilter::MAX_LIMIT, ..JobFilter::default() };
        let seen = self.admin.jobs(&filter).await.expect("list");
        let once: std::collections::HashSet<_> = seen.iter().map(|record| record.id).collect();
        assert_eq!(once.len(), seen.len(), "listed twice: {seen:?}");
        assert_eq!(seen.next, None, "a few jobs need no second page");
        for record in &seen.jobs {
            let entry = self.book.jobs.get(&record.id);
            self.compare(record, entry.unwrap_or_else(|| panic!("nobody enqueued {record:?}")));
            assert_eq!(record.queue, self.queues[queue]);
        }
        for (&id, entry) in &self.book.jobs {
            let wanted = entry.queue == queue && state.is_none_or(|state| entry.stage.state() == state);
            let listed = seen.iter().any(|record| record.id == id);
            if wanted && !self.book.may_be_gone(entry) {
                assert!(listed, "job {id} is missing in the list of {state:?}: {entry:?}");
            }
            assert!(wanted || !listed, "job {id} is in the list of {state:?}: {entry:?}");
        }
    }

    pub(super) async fn check_job(&self, id: JobId) {
        let entry = &self.book.jobs[&id];
        match self.admin.job(id).await.expect("look up") {
            None => assert!(self.book.may_be_gone(entry), "job {id} is gone: {entry:?}"),
            Some(record) => {
                self.compare(&record, entry);
                assert_eq!(record.errors.len(), entry.errors, "errors of job {id}: {record:?}");
            }
        }
    }

    fn compare(&self, record: &JobRecord, entry: &Entry) {
        let id = record.id;
        assert_eq!(record.state, entry.stage.state(), "state of job {id}: {record:?}, model: {entry:?}");
        assert_eq!((record.priority, record.kind.as_str()), (entry.priority, entry.kind), "job {id}");
        assert!(entry.has_begun(record.attempt), "attempts of job {id}: {record:?}, model: {entry:?}");
        let crashed = entry.has_crashed(record.crash_count) || record.state.is_final();
        assert!(crashed, "crashes of job {id}: {record:?}, model: {entry:?}");
        if let super::book::Stage::Running(worker, _) = entry.stage {
            assert_eq!(record.claimed_by, Some(worker), "holder of job {id}");
        }
    }
}
