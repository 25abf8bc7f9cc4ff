use super::play::Play;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use windlass_core::{
    Args, ClaimRef, HandlerReport, JobId, JobRecord, JobReport, JobStore, LogEntry, Progress, ReportRequest,
};

impl Play {
    /// What handlers say of jobs that the worker holds, and now and then of jobs that it does not hold, or not any more.
    pub(super) async fn report(&mut self, who: usize) {
        let (store, worker) = (Arc::clone(&self.actors[who].store), self.actors[who].id);
        let held = self.oracle.held_by(worker).await;
        let mut of: BTreeMap<JobId, ClaimRef> = BTreeMap::new();
        for (claim, open) in held {
            of.extend(open.into_iter().filter(|_| self.rng.bool()).map(|id| (id, claim)));
        }
        if self.rng.u32(..3) == 0 {
            let mut claims: Vec<_> = self.claims.iter().map(|(claim, jobs)| (*claim, jobs[0].0)).collect();
            claims.sort_unstable();
            self.rng.shuffle(&mut claims);
            for (claim, id) in claims.into_iter().take(2) {
                of.entry(id).or_insert(claim);
            }
        }
        let mut reports = Vec::new();
        for (id, claim) in of {
            reports.push(self.some_report(claim, id).await);
        }
        if reports.is_empty() {
            return;
        }
        let gone = self.gone.last().copied().filter(|_| self.rng.u32(..6) == 0);
        let request = ReportRequest { worker: gone.unwrap_or(worker), reports };
        let (replies, known) = (store.report(&request).await, self.oracle.report(&request).await);
        self.trace(format!("{request:?}: {replies:?}"));
        match (replies, known) {
            (Ok(replies), Ok(known)) => assert_eq!(replies, known),
            (Err(error), Err(known)) => {
                assert!(gone.is_some() && error.is_lease_lost() && known.is_lease_lost(), "{error}");
            }
            other => panic!("the store and the oracle: {other:?}"),
        }
    }

    /// The next report of a job under a claim, or one that comes late.
    async fn some_report(&mut self, claim: ClaimRef, id: JobId) -> JobReport {
        let position = self.claims[&claim].iter().find(|job| job.0 == id).expect("a job of the claim").1;
        let attempt = match self.oracle.deleted.contains(&id) {
            true => 1,
            false => self.oracle.job(id).await.attempt.max(1),
        };
        let last = self.reports.entry((claim, id)).or_default();
        *last += u64::from(*last == 0 || self.rng.u32(..4) > 0);
        let number = *last;
        let n = self.rng.u32(..1_000);
        let line = |text: String| LogEntry { age: Duration::ZERO, text };
        JobReport {
            claim,
            job: id,
            position,
            attempt,
            number,
            progress: self.rng.bool().then(|| Progress::from((f64::from(n) / 10.0, format!("n {n}")))),
            checkpoint: self.rng.bool().then(|| Args::of(&n).expect("a number")),
            log: (0..self.rng.usize(..3)).map(|line_number| line(format!("{n} {line_number}"))).collect(),
            dropped: u64::from(self.rng.u32(..8) == 0),
        }
    }

    /// What was said of these jobs is what the oracle heard.
    pub(super) async fn check_checkpoints(&self, ids: &[JobId]) {
        let seen = self.admin.checkpoints(ids).await.expect("checkpoints");
        let known = self.oracle.store.checkpoints(&self.oracle.named(ids)).await.expect("checkpoints");
        assert_eq!(seen.len(), ids.len());
        for (id, (seen, known)) in ids.iter().zip(seen.into_iter().zip(known)) {
            let gone = seen.is_none()
                && !self.oracle.deleted.contains(id)
                && self.may_be_gone(&self.oracle.job(*id).await);
            assert!(seen == known || gone, "checkpoint of job {id}: {seen:?}, oracle: {known:?}");
        }
    }
}

/// All but the times.
pub(super) fn said(job: &JobRecord) -> Option<impl PartialEq + std::fmt::Debug + use<>> {
    let said = |report: &HandlerReport| {
        let lines: Vec<_> = report.log.iter().map(|line| (line.attempt, line.text.clone())).collect();
        let last = (report.progress.clone(), report.checkpoint.clone());
        (report.attempt, last, lines, report.log_dropped)
    };
    job.report.as_deref().map(said)
}
