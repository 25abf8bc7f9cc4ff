use crate::{
    dice::Dice,
    fake::{Call, FakeStore, Fault, history::What},
    nth_call::Nth,
    scenario::Scenario,
};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::{ErrorKind, WorkerId};

/// How long a call may hang before the store's own patience ends.
const LONGEST_HANG_MS: usize = 20_000;

/// Decides about every call.
pub struct Trouble {
    dice: Dice,
    percent: u32,
    latency_ms: usize,
    outage_until: Option<Instant>,
    nth: Option<Nth>,
    calls: usize,
    pub calls_in_trouble: usize,
    pub is_over: bool,
    /// When the last faulty call is over.
    pub lasts_until: Instant,
}

impl Trouble {
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            dice: Dice::new(scenario.seed ^ 0x7205_b1e5),
            percent: scenario.fault_percent,
            latency_ms: scenario.latency_ms,
            outage_until: None,
            nth: scenario.nth_call,
            calls: 0,
            calls_in_trouble: 0,
            is_over: false,
            lasts_until: Instant::now(),
        }
    }

    /// The store is gone until then.
    pub fn go_down(&mut self, until: Instant) {
        self.outage_until = Some(until);
    }

    /// From now on everything works.
    pub fn end(&mut self) {
        (self.percent, self.outage_until, self.nth) = (0, None, None);
        (self.calls_in_trouble, self.is_over) = (self.calls, true);
    }

    pub fn decide(
        &mut self,
        store: &FakeStore,
        client: usize,
        call: Call,
        worker: Option<WorkerId>,
    ) -> Fault {
        self.calls += 1;
        let nth = self.nth.as_ref().and_then(|nth| nth.strikes(self.calls, worker));
        let down = self.outage_until.filter(|until| *until > Instant::now());
        let fault = if let Some(fault) = nth {
            fault
        } else if let Some(until) = down {
            self.down(until)
        } else if self.dice.percent(self.percent) {
            self.strike(worker)
        } else {
            return self.latency();
        };
        let lasts = match &fault {
            Fault::Late { before, after, .. } => *before + *after,
            Fault::TakeLeaseAfter(after) => *after,
            _ => Duration::ZERO,
        };
        self.lasts_until = self.lasts_until.max(Instant::now() + lasts);
        let history = &mut store.lock().history;
        let until = history.now() + lasts;
        history.note(client, What::Fault { call, until });
        fault
    }

    fn latency(&mut self) -> Fault {
        if self.latency_ms == 0 {
            return Fault::None;
        }
        let [before, after] = [(); 2].map(|()| self.dice.millis(0, self.latency_ms));
        Fault::Late { before, happens: true, after, error: None }
    }

    fn down(&mut self, until: Instant) -> Fault {
        let (unavailable, ambiguous) = (Some(ErrorKind::Unavailable), Some(ErrorKind::Ambiguous));
        let left = until - Instant::now();
        let (before, happens, after, error) = match self.dice.number(0, 3) {
            0 | 1 => return Fault::Fail(ErrorKind::Unavailable),
            2 => (left, false, Duration::ZERO, unavailable),
            _ => (Duration::ZERO, self.dice.percent(50), left, ambiguous),
        };
        Fault::Late { before, happens, after, error }
    }

    fn strike(&mut self, worker: Option<WorkerId>) -> Fault {
        let (zero, ambiguous) = (Duration::ZERO, Some(ErrorKind::Ambiguous));
        let (before, happens, after, error) = match self.dice.number(0, 9) {
            0 | 1 => return Fault::Fail(ErrorKind::Unavailable),
            2 => return Fault::Fail(ErrorKind::Internal),
            3 | 4 => return Fault::LoseReply,
            5 if worker.is_some() && self.dice.percent(50) => return Fault::TakeLease,
            5 if worker.is_some() => return Fault::TakeLeaseAfter(self.dice.millis(0, 5_000)),
            5 | 6 => (self.dice.millis(0, 5_000), true, zero, None),
            7 => (zero, true, self.dice.millis(0, 12_000), None),
            8 => (self.dice.millis(0, 5_000), self.dice.percent(50), self.dice.millis(0, 5_000), ambiguous),
            _ => (zero, self.dice.percent(50), self.dice.millis(5_000, LONGEST_HANG_MS), ambiguous),
        };
        Fault::Late { before, happens, after, error }
    }
}
