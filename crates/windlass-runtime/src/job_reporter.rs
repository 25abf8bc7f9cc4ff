use crate::sync::{Mutex, MutexGuard};
use std::{collections::VecDeque, sync::PoisonError};
use tokio::{sync::oneshot, time::Instant};
use windlass_core::{Args, ClaimRef, Error, ErrorKind, JobId, JobReport, Limits, LogEntry, Progress, Result};

/// Told when the store has what was said before, or will not take it.
type Waiter = oneshot::Sender<Result<()>>;

/// What the handler of one job says, until the store has it. Jobs whose handler says nothing have none.
#[derive(Debug)]
pub(crate) struct JobReporter {
    claim: ClaimRef,
    job: JobId,
    position: i64,
    attempt: u16,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    unsent: Unsent,
    /// For what is unsent.
    waiting: Vec<Waiter>,
    /// For what is on its way.
    sent: Vec<Waiter>,
    is_under_way: bool,
    /// The number of the last report.
    number: u64,
    /// It stands in the outbox.
    is_listed: bool,
    /// The attempt is over, or the store refused: nothing more is taken.
    is_closed: bool,
}

/// What was said since the last report: bounded, whatever the handler does.
#[derive(Debug, Default)]
pub(crate) struct Unsent {
    pub(crate) progress: Option<Progress>,
    pub(crate) checkpoint: Option<Args>,
    log: VecDeque<(Instant, String)>,
    log_bytes: usize,
    dropped: u64,
}

impl Unsent {
    /// Adds a line. The oldest go when there are too many.
    pub(crate) fn log(&mut self, text: &str) {
        let text = Limits::storable_line(text);
        self.log_bytes += text.len();
        self.log.push_back((Instant::now(), text));
        while self.log.len() > Limits::MAX_LOG_LINES || self.log_bytes > Limits::MAX_LOG_BYTES {
            let Some((_, oldest)) = self.log.pop_front() else { break };
            self.log_bytes -= oldest.len();
            self.dropped += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.progress.is_none() && self.checkpoint.is_none() && self.log.is_empty()
    }
}

/// What was said of a job that is no longer this worker's.
pub(crate) fn too_late(job: JobId) -> Error {
    Error::new(
        ErrorKind::LeaseLost,
        format!("job {job} is not held by this worker any more, or its attempt is over"),
    )
}

impl JobReporter {
    pub(crate) fn new(claim: ClaimRef, job: JobId, position: i64, attempt: u16) -> Self {
        Self { claim, job, position, attempt, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes something new. Whether the reporter has to be listed in the outbox, and, if `wait`, who is told when the
    /// store has it.
    pub(crate) fn say(
        &self,
        wait: bool,
        change: impl FnOnce(&mut Unsent),
    ) -> (bool, Option<oneshot::Receiver<Result<()>>>) {
        let mut state = self.lock();
        let stored = wait.then(oneshot::channel);
        if state.is_closed {
            let told = stored.map(|(waiter, stored)| {
                let _ = waiter.send(Err(too_late(self.job)));
                stored
            });
            return (false, told);
        }
        change(&mut state.unsent);
        let told = stored.map(|(waiter, stored)| {
            match (state.unsent.is_empty(), state.is_under_way) {
                (false, _) => state.waiting.push(waiter),
                (true, true) => state.sent.push(waiter),
                // Nothing new was said, and the store has all that was: nobody would tell.
                (true, false) => drop(waiter.send(Ok(()))),
            }
            stored
        });
        (!std::mem::replace(&mut state.is_listed, true), told)
    }

    /// The attempt is over: nothing more is taken. Who is told when the store has what was said; `None`: it has.
    pub(crate) fn close(&self) -> Option<oneshot::Receiver<Result<()>>> {
        let mut state = self.lock();
        state.is_closed = true;
        let (waiter, stored) = oneshot::channel();
        if !state.unsent.is_empty() {
            state.waiting.push(waiter);
        } else if state.is_under_way {
            state.sent.push(waiter);
        } else {
            return None;
        }
        Some(stored)
    }

    /// What is to be sent now. It is under way until [`Self::done`].
    pub(crate) fn take(&self) -> Option<JobReport> {
        let mut state = self.lock();
        state.is_listed = false;
        if state.unsent.is_empty() {
            return None;
        }
        let Unsent { progress, checkpoint, log, dropped, .. } = std::mem::take(&mut state.unsent);
        state.sent = std::mem::take(&mut state.waiting);
        state.is_under_way = true;
        state.number += 1;
        let entry = |(at, text): (Instant, String)| LogEntry { age: at.elapsed(), text };
        Some(JobReport {
            claim: self.claim,
            job: self.job,
            position: self.position,
            attempt: self.attempt,
            number: state.number,
            progress,
            checkpoint,
            log: log.into_iter().map(entry).collect(),
            dropped,
        })
    }

    /// What was under way is stored, or will not be.
    pub(crate) fn done(&self, result: impl Fn() -> Result<()>) {
        let mut state = self.lock();
        state.is_under_way = false;
        state.sent.drain(..).for_each(|waiter| drop(waiter.send(result())));
    }

    /// The store takes nothing more of this job from this worker.
    pub(crate) fn refuse(&self) {
        let mut state = self.lock();
        (state.is_closed, state.is_listed, state.unsent) = (true, false, Unsent::default());
        let waiting = std::mem::take(&mut state.waiting);
        waiting.into_iter().for_each(|waiter| drop(waiter.send(Err(too_late(self.job)))));
        drop(state);
        self.done(|| Err(too_late(self.job)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reporter() -> JobReporter {
        JobReporter::new(ClaimRef(1, 1), JobId(7), 0, 1)
    }

    #[test]
    fn only_the_newest_goes_out_and_is_bounded() {
        let reporter = reporter();
        for n in 0..100_000_u32 {
            let (list, _) = reporter.say(false, |unsent| {
                unsent.progress = Some(Progress::from(f64::from(n % 100)));
                unsent.log(&n.to_string());
            });
            assert_eq!(list, n == 0);
        }
        let report = reporter.take().unwrap();
        assert_eq!((report.number, report.log.len(), report.dropped), (1, 100, 99_900));
        assert_eq!((report.log[0].text.as_str(), report.progress.unwrap().percent), ("99900", 99.0));
        assert!(reporter.take().is_none());
        for _ in 0..50 {
            reporter.say(false, |unsent| unsent.log(&"x".repeat(10_000)));
        }
        let bytes: usize = reporter.take().unwrap().log.iter().map(|entry| entry.text.len()).sum();
        assert!(bytes <= Limits::MAX_LOG_BYTES, "{bytes}");
    }

    #[tokio::test]
    async fn who_waits_is_told_of_what_was_said_before() {
        let reporter = reporter();
        let first = reporter.say(true, |unsent| unsent.log("a")).1.unwrap();
        reporter.take().unwrap();
        let second = reporter.say(true, |unsent| unsent.log("b")).1.unwrap();
        let last = reporter.close().unwrap();
        reporter.done(|| Ok(()));
        first.await.unwrap().unwrap();
        assert_eq!(reporter.take().unwrap().number, 2);
        reporter.done(|| Ok(()));
        second.await.unwrap().unwrap();
        last.await.unwrap().unwrap();
        let late = reporter.say(true, |unsent| unsent.log("c")).1.unwrap();
        assert!(late.await.unwrap().unwrap_err().is_lease_lost());
        assert!(reporter.take().is_none());
    }

    #[tokio::test]
    async fn the_end_of_an_attempt_waits_for_what_is_under_way_and_for_nothing_else() {
        let reporter = reporter();
        assert!(reporter.close().is_none());
        let reporter = self::reporter();
        reporter.say(false, |unsent| unsent.log("a"));
        reporter.take().unwrap();
        let stored = reporter.close().unwrap();
        reporter.refuse();
        assert!(stored.await.unwrap().is_err());
        assert!(reporter.close().is_none());
    }
}
