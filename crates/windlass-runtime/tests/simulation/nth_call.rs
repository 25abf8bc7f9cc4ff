//! One fault, at the n-th call, for every n.

use crate::{
    check::SUSPECT,
    fake::Fault,
    handlers::{Act, Script, Wait},
    play::{Played, play},
    report,
    scenario::{PLAIN, RARE, Scenario, Worker},
    world::{World, job},
};
use std::time::Duration;
use windlass_core::{ErrorKind, QueueLimits, WorkerId};
use windlass_runtime::WorkerConfig;

/// Longer than the lease of these runs.
const TOO_LONG: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nth {
    pub call: usize,
    pub how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    FailsBefore,
    FailsForItself,
    LosesReply,
    HappensLate,
    AnswersLate,
    LosesReplyLate,
    LosesLease,
    LosesLeaseMeanwhile,
}

impl How {
    const ALL: [Self; 8] = [
        Self::FailsBefore,
        Self::FailsForItself,
        Self::LosesReply,
        Self::HappensLate,
        Self::AnswersLate,
        Self::LosesReplyLate,
        Self::LosesLease,
        Self::LosesLeaseMeanwhile,
    ];
}

impl Nth {
    /// What becomes of this call, if it is the one.
    pub fn strikes(&self, call: usize, worker: Option<WorkerId>) -> Option<Fault> {
        let late = |before, after, error| Fault::Late { before, happens: true, after, error };
        (call == self.call).then_some(match self.how {
            How::FailsBefore => Fault::Fail(ErrorKind::Unavailable),
            How::FailsForItself => Fault::Fail(ErrorKind::Internal),
            How::LosesReply => Fault::LoseReply,
            How::HappensLate => late(TOO_LONG, Duration::ZERO, None),
            How::AnswersLate => late(Duration::ZERO, TOO_LONG, None),
            How::LosesReplyLate => late(Duration::ZERO, TOO_LONG, Some(ErrorKind::Ambiguous)),
            How::LosesLease if worker.is_some() => Fault::TakeLease,
            How::LosesLeaseMeanwhile if worker.is_some() => Fault::TakeLeaseAfter(TOO_LONG),
            How::LosesLease | How::LosesLeaseMeanwhile => Fault::Fail(ErrorKind::Unavailable),
        })
    }
}

fn scenario(nth_call: Option<Nth>) -> Scenario {
    let config = WorkerConfig {
        name: "simulated".to_owned(),
        lease: Duration::from_secs(3),
        grace_period: Duration::from_secs(2),
        ..WorkerConfig::default().with_queue("a", 3).with_queue("b", 1)
    };
    Scenario {
        seed: 1,
        workers: vec![Worker { config, knows_rare: false }],
        fault_percent: 0,
        latency_ms: 2,
        trouble: Duration::from_secs(12),
        event_percent: 0,
        killer_percent: 0,
        suspect_percent: 0,
        hint_percent: 100,
        limits: QueueLimits::default(),
        keys: false,
        nth_call,
    }
}

/// The jobs of these runs: a few of everything.
pub fn enqueue(world: &World) {
    let second = Duration::from_secs(1);
    let waits =
        [Wait::None, Wait::Sleep(second / 10), Wait::Politely(second * 30), Wait::Stubbornly(second * 4)];
    let acts = [
        vec![Act::Complete],
        vec![Act::Fail(Some(second / 5)), Act::Complete],
        vec![Act::Panic, Act::Snooze(second / 2), Act::Complete],
        vec![Act::Cancel],
        vec![Act::Discard],
    ];
    for at in 0..20 {
        let wait = if at % 10 < 8 { waits[at % 2] } else { waits[at % 10 - 6] };
        let script = Script { wait, acts: acts[at % 5].clone() };
        let (queue, kind) = (if at % 4 == 3 { "b" } else { "a" }, if at == 6 { RARE } else { PLAIN });
        let crash_count = if at == 8 { SUSPECT } else { 0 };
        world.enqueue(job(queue, kind).with_max_attempts(3), crash_count, script);
    }
    world.store.announce();
}

fn run(nth: Option<Nth>) -> Played {
    let played = play(&scenario(nth));
    report::fail_on_violations(&played);
    played
}

#[test]
fn every_call_fails_once_in_every_way() {
    let calls = run(None).calls_in_trouble;
    assert!(calls > 30, "only {calls} calls");
    for how in How::ALL {
        (1..=calls).for_each(|call| drop(run(Some(Nth { call, how }))));
    }
    println!("{} runs", calls * How::ALL.len());
}
