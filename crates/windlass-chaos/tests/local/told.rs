//! Histories of a few events, written by hand.

use windlass_chaos::{
    checker::{Invariant, Report, Rules, Verdict, check},
    history::{Event, Fate, Fault, History, Outcome, Phase, ProcessLog, What},
};
use windlass_core::JobState;

pub(super) const INJECTOR: i64 = 0;
pub(super) const PRODUCER: i64 = 1;
pub(super) const ONE: i64 = 2;
pub(super) const TWO: i64 = 3;
pub(super) const SECOND: u64 = 1_000_000_000;

/// Events in the order that they happen, each by one process, a tenth of a second apart.
#[derive(Default)]
pub(super) struct Told(pub(super) Vec<(i64, What)>);

impl Told {
    pub(super) fn then(mut self, process: i64, what: What) -> Self {
        self.0.push((process, what));
        self
    }

    /// A job is enqueued, and both workers have registered.
    pub(super) fn begun() -> Self {
        Self::default()
            .then(ONE, What::Registered { worker: 1, slots: 1, lease_ns: SECOND as i64 })
            .then(TWO, What::Registered { worker: 2, slots: 1, lease_ns: SECOND as i64 })
            .then(PRODUCER, What::EnqueueSent { key: 70 })
            .then(PRODUCER, What::EnqueueAcked { key: 70, id: 7 })
    }

    pub(super) fn claimed(self, process: i64, worker: i32, seq: i64, attempt: u16, crashes: u16) -> Self {
        let sent = self.now();
        self.claimed_late(process, worker, seq, attempt, crashes, sent)
    }

    /// When what is told next happens.
    pub(super) fn now(&self) -> u64 {
        self.0.len() as u64 * SECOND / 10
    }

    /// By a call that was sent at this time.
    pub(super) fn claimed_late(
        self,
        process: i64,
        worker: i32,
        seq: i64,
        attempt: u16,
        crashes: u16,
        sent: u64,
    ) -> Self {
        self.then(process, What::Claimed { worker, id: 7, lane: 1, seq, attempt, crashes, sent })
    }

    pub(super) fn started(self, process: i64, worker: i32, seq: i64) -> Self {
        self.then(process, What::Started { worker, id: 7, seq, key: 70, attempt: 1 })
    }

    pub(super) fn settled(self, process: i64, worker: i32, seq: i64, fate: Fate, outcome: Outcome) -> Self {
        let sent = self.now();
        self.then(process, What::Settled { worker, id: 7, seq, fate, outcome, sent })
    }

    /// With the ids that the new cluster gives once more.
    pub(super) fn registered_anew(self) -> Self {
        self.then(TWO, What::Registered { worker: 1, slots: 1, lease_ns: SECOND as i64 })
    }

    /// Runs to its end under one claim.
    pub(super) fn done(self, process: i64, worker: i32, seq: i64) -> Self {
        self.started(process, worker, seq)
            .then(process, What::Finished { worker, id: 7, seq, outcome: Outcome::Complete })
            .settled(process, worker, seq, Fate::Accepted, Outcome::Complete)
    }

    pub(super) fn killed(self, process: i64) -> Self {
        self.then(INJECTOR, What::Fault { fault: Fault::Kill, target: Some(process), begins: true })
    }

    pub(super) fn rescued(self, by: i64, worker: i32) -> Self {
        self.then(by, What::RescueSent { call: 1 })
            .then(by, What::Rescued { call: 1, worker })
            .then(by, What::RescueDone { call: 1 })
    }

    pub(super) fn drained(self) -> Self {
        self.then(INJECTOR, What::Phase { phase: Phase::Drained })
    }

    pub(super) fn stored(self, id: i64, key: i64, state: JobState) -> Self {
        self.then(INJECTOR, What::Stored { id, key, state, attempt: 1, crashes: 0 })
    }

    pub(super) fn check(self) -> Report {
        self.check_by(&Rules::default())
    }

    pub(super) fn check_by(self, rules: &Rules) -> Report {
        check(&self.history(), rules)
    }

    pub(super) fn history(self) -> History {
        let all = self.then(INJECTOR, What::Phase { phase: Phase::Dumped }).0;
        let of = |number: i64| ProcessLog {
            number,
            name: format!("process-{number}"),
            events: all
                .iter()
                .enumerate()
                .filter(|(_, (process, _))| *process == number)
                .map(|(at, (_, what))| Event { at: at as u64 * SECOND / 10, what: *what })
                .collect(),
            torn_bytes: 0,
        };
        History::of([INJECTOR, PRODUCER, ONE, TWO].map(of).into())
    }

    /// Everything went well.
    pub(super) fn good() -> Self {
        Self::begun().claimed(ONE, 1, 1, 1, 0).done(ONE, 1, 1).drained().stored(7, 70, JobState::Completed)
    }

    /// The first worker was killed, the second took over.
    pub(super) fn taken_over() -> Self {
        Self::begun()
            .claimed(ONE, 1, 1, 1, 0)
            .started(ONE, 1, 1)
            .killed(ONE)
            .rescued(TWO, 1)
            .claimed(TWO, 2, 2, 1, 1)
            .done(TWO, 2, 2)
            .drained()
            .stored(7, 70, JobState::Completed)
    }
}

pub(super) fn broken(report: &Report) -> Vec<Invariant> {
    assert_ne!(report.verdict, Verdict::Valid, "{report:?}");
    report.violated.keys().copied().collect()
}
