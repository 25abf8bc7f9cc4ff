use super::{
    play::Play,
    reporting::said,
    told::{PAGE, Told, counted},
};
use crate::{events::read, steps::*};
use std::collections::BTreeMap;
use windlass_core::{EventCursor, JobFilter, JobId, JobRecord, JobState, JobStore, QueueStats};

/// How many jobs are looked up by their id in one check.
const LOOK_UPS: usize = 5;

impl Play {
    /// Compares everything that the store shows with the oracle.
    pub(super) async fn check(&mut self) {
        self.trace("check".to_owned());
        let known = self.oracle.records().await;
        for number in 0..self.queues.len() {
            let name = self.queues[number].clone();
            self.check_counts(&name, &known).await;
            self.check_list(&name, None, &known).await;
            let state = JobState::ALL[self.rng.usize(..JobState::ALL.len())];
            self.check_list(&name, Some(state), &known).await;
        }
        for id in self.some_ids(LOOK_UPS) {
            self.check_job(id).await;
        }
        for id in self.oracle.deleted.iter().rev().take(LOOK_UPS) {
            assert!(self.admin.job(*id).await.expect("look up").is_none(), "job {id} was deleted");
        }
        let ids = self.some_named(LOOK_UPS);
        self.check_checkpoints(&ids).await;
        self.check_ended(&ids).await;
        self.check_told().await;
    }

    /// Of each job both tell the same since the last look, in the same order; and what is kept can be read, whatever was removed.
    pub(super) async fn check_told(&mut self) {
        read(&self.admin, &mut EventCursor::start(), PAGE).await;
        let [seen, mut known] = self.told.since(&self.admin, &self.oracle.handle()).await;
        for (id, story) in seen {
            let twin = self.oracle.named(&[id])[0];
            assert_eq!(story, known.remove(&twin).unwrap_or_default(), "what is told of job {id}");
        }
        assert!(known.is_empty(), "not told, by the oracle's ids: {known:?}");
    }

    /// Housekeeping that keeps nothing may refuse even who has read everything.
    pub(super) async fn read_on_from_now(&mut self) {
        self.told = Told::begin(&self.admin, &self.oracle.handle()).await;
    }

    /// Housekeeping has counted all that happened.
    pub(super) async fn check_counted(&self) {
        let seen = counted(&self.admin, &self.queues).await;
        assert_eq!(seen, counted(&self.oracle.handle(), &self.queues).await, "what is counted");
    }

    /// What those who wait for these jobs are told.
    async fn check_ended(&self, ids: &[JobId]) {
        let ended = self.admin.ended(ids).await.expect("ended");
        for id in ids {
            let seen = ended.jobs.iter().find(|job| job.id == *id);
            let gone = ended.unknown.contains(id);
            if self.oracle.deleted.contains(id) {
                assert!(gone && seen.is_none(), "job {id} was deleted: {ended:?}");
                continue;
            }
            let known = self.oracle.job(*id).await;
            assert!(!gone || self.may_be_gone(&known), "job {id} is gone: {known:?}");
            match seen {
                Some(seen) => {
                    assert_eq!((seen.state, &seen.result), (known.state, &known.result), "{seen:?}");
                }
                None => {
                    assert!(gone || !known.state.is_final(), "nobody hears that job {id} ended: {known:?}");
                }
            }
        }
    }

    async fn check_counts(&self, name: &str, known: &BTreeMap<JobId, JobRecord>) {
        let seen = queue(&self.admin, name).await;
        let queues = self.oracle.store.queues().await.expect("list queues");
        let expected = queues.into_iter().find(|queue| queue.name == name).expect("a queue of the oracle");
        let gone = known.values().filter(|job| job.queue == name && self.may_be_gone(job)).count() as u64;
        let completed = expected.completed - gone..=expected.completed;
        assert!(completed.contains(&seen.completed), "{completed:?} completed: {seen:?}");
        let counts = |stats: &QueueStats| {
            let waiting =
                [stats.available, stats.no_handler, stats.running, stats.scheduled, stats.retryable];
            (waiting, stats.cancelled, stats.discarded, stats.paused)
        };
        assert_eq!(counts(&seen), counts(&expected), "{seen:?}, oracle: {expected:?}");
    }

    async fn check_list(&self, name: &str, state: Option<JobState>, known: &BTreeMap<JobId, JobRecord>) {
        let queue = Some(name.to_owned());
        let filter = JobFilter { state, queue, limit: JobFilter::MAX_LIMIT, ..JobFilter::default() };
        let seen = self.admin.jobs(&filter).await.expect("list");
        let listed: BTreeMap<_, _> = seen.iter().map(|record| (record.id, record)).collect();
        assert_eq!(listed.len(), seen.len(), "listed twice: {seen:?}");
        assert_eq!(seen.next, None, "a few jobs need no second page");
        for (id, record) in &listed {
            self.compare(record, known.get(id).unwrap_or_else(|| panic!("nobody enqueued {record:?}")));
        }
        for (id, job) in known {
            let wanted = job.queue == name && state.is_none_or(|state| job.state == state);
            let is_listed = listed.contains_key(id);
            assert!(is_listed || !wanted || self.may_be_gone(job), "job {id} is not in {state:?}: {job:?}");
            assert!(wanted || !is_listed, "job {id} is in the list of {state:?}: {job:?}");
        }
    }

    pub(super) async fn check_job(&self, id: JobId) {
        let known = self.oracle.job(id).await;
        match self.admin.job(id).await.expect("look up") {
            None => assert!(self.may_be_gone(&known), "job {id} is gone: {known:?}"),
            Some(record) => {
                self.compare(&record, &known);
                let errors =
                    |job: &JobRecord| job.errors.iter().map(|error| error.error.clone()).collect::<Vec<_>>();
                assert_eq!(errors(&record), errors(&known), "errors of job {id}: {record:?}");
                assert_eq!(said(&record), said(&known), "what was said of job {id}");
            }
        }
    }

    fn compare(&self, record: &JobRecord, known: &JobRecord) {
        let told = format!("job {}: {record:?}, oracle: {known:?}", record.id);
        let attributes = |job: &JobRecord| (job.key.clone(), job.tags.clone(), job.expires_at.is_some());
        let content =
            |job: &JobRecord| (job.kind.clone(), job.args.clone(), job.result.clone(), job.max_attempts);
        let what =
            |job: &JobRecord| ((job.state, job.priority, job.queue.clone()), content(job), attributes(job));
        assert_eq!(what(record), what(known), "{told}");
        // What its handler ended early may count its last attempt or not.
        let early = u16::from(matches!(known.state, JobState::Cancelled | JobState::Discarded));
        assert!((known.attempt..=known.attempt + early).contains(&record.attempt), "attempts of {told}");
        assert!(record.crash_count == known.crash_count || record.state.is_final(), "crashes of {told}");
        if record.state == JobState::Running {
            let holder = record.claimed_by.map(|worker| self.oracle.worker(worker));
            assert_eq!(holder, known.claimed_by, "holder of {told}");
        }
        assert_eq!(waits(record), waits(known), "when it is due, {told}");
        let says =
            |job: &JobRecord| (job.state.is_final() && job.reason.is_some(), job.finished_at.is_some());
        assert_eq!(says(record), says(known), "whether it says why and when it ended, {told}");
    }
}

/// How long after its enqueue a scheduled job is due, in tenths of `LATER`, rounded: the two are not asked at one moment.
fn waits(job: &JobRecord) -> Option<i64> {
    let due = job.scheduled_at.filter(|_| job.state == JobState::Scheduled)?;
    let tenth = LATER.as_secs_f64() / 10.0;
    Some((due.duration_since(job.enqueued_at).as_secs_f64() / tenth).round() as i64)
}
