//! Reports of running jobs: nothing takes the place of what the next holder said.

use super::{Book, Entry, Stage};
use windlass_core::{JobReport, ReportRequest, Reported};

impl Book {
    /// The transaction of a report committed.
    pub(super) fn reported(&mut self, request: &ReportRequest, replies: &[Reported]) {
        self.must_live(request.worker, "reported");
        for (report, reply) in request.reports.iter().zip(replies) {
            let under = Stage::Running(request.worker, report.claim);
            let entry = self.jobs.get_mut(&report.job);
            let held =
                entry.as_ref().and_then(|entry| entry.past.iter().position(|&(_, stage)| stage == under));
            match (reply, entry, held) {
                (Reported::Refused, ..) => {}
                (Reported::Accepted, Some(entry), Some(held)) => {
                    entry.checkpoint = entry.checkpoint.max(Some((held, report.number)));
                }
                _ => self
                    .blame(format!("worker {} never held what it reported of: {report:?}", request.worker)),
            }
        }
    }

    /// What was accepted was of a job that the worker held while the report ran, what was refused of one that it did not hold
    /// all the time.
    pub(super) fn must_not_be_held(&mut self, request: &ReportRequest, replies: &[Reported], tick: u64) {
        if replies.len() != request.reports.len() {
            return self.blame(format!("{} answers to {} reports", replies.len(), request.reports.len()));
        }
        for (report, reply) in request.reports.iter().zip(replies) {
            let under = Stage::Running(request.worker, report.claim);
            let entry = self.jobs.get(&report.job);
            let was = |entry: &Entry| entry.was(tick, |stage| stage == under);
            let always = |entry: &Entry| was(entry) && entry.past.last().is_some_and(|&(at, _)| at < tick);
            let wrong = match reply {
                Reported::Accepted => !entry.is_some_and(was),
                Reported::Refused => entry.is_some_and(always),
            };
            if wrong {
                let past = entry.map(|entry| &entry.past);
                let JobReport { job, number, .. } = report;
                let what = format!("report {number} of job {job} was {reply:?}: {past:?}");
                self.blame(what);
            }
        }
    }
}

impl Entry {
    /// The checkpoint that the store must have.
    pub(super) fn said(&self) -> Option<String> {
        self.checkpoint.map(|(_, number)| number.to_string())
    }
}
