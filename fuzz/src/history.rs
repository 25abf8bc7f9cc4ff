//! History files and the checker on anything at all: never a panic, never without end.

use super::queue::Choices;
use std::time::Duration;
use windlass_chaos::{
    checker::{Rules, Ticking, check, tell},
    history::{Event, Fate, Fault, History, Outcome, Phase, ProcessLog, What},
};
use windlass_core::{JobState, RateLimit};

/// Numbers that are likely to meet, and those at the ends of their types.
const NUMBERS: [i64; 16] = [
    0,
    1,
    2,
    3,
    4,
    -1,
    1_000_000_000,
    1 << 16,
    (1 << 16) + 1,
    i64::MAX,
    i64::MAX - 1,
    i64::MIN,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 40,
    i64::MIN + 65_535,
];

/// The words that generated inputs are made of.
pub const WORDS: &[&str] = &[
    "{\"process\":7}\n",
    "{\"at\":1,\"what\":{\"EnqueueSent\":{\"key\":1}}}\n",
    "{\"at\":2,\"what\":{\"Started\":{\"worker\":1,\"id\":1,\"seq\":1,\"key\":1,\"attempt\":1}}}\n",
    "{\"at\":3,\"what\":{\"Fault\":{\"fault\":\"kill\",\"target\":null,\"begins\":true}}}\n",
    "{\"at\":",
    "-1",
    ",\"what\":{\"Effect\":{\"id\":",
    "18446744073709551616",
    "}}}",
    "\n",
];

/// Reads the bytes as a file, and then makes events of them.
pub fn body(data: &[u8]) {
    if let Ok(log) = ProcessLog::parse("p", data) {
        judge(vec![log]);
    }
    let mut choices = Choices::new(data);
    let mut logs: Vec<ProcessLog> = (0..3).map(|number| log(number, Vec::new())).collect();
    while !choices.is_empty() {
        let process = choices.below(3);
        logs[process].events.push(event(&mut choices));
    }
    logs.iter().for_each(|log| round_trip(&log.events));
    judge(logs);
}

fn log(number: i64, events: Vec<Event>) -> ProcessLog {
    ProcessLog { number, name: format!("p-{number}"), events, torn_bytes: 0 }
}

fn event(choices: &mut Choices<'_>) -> Event {
    let at = match choices.below(4) {
        0 => NUMBERS[choices.below(NUMBERS.len())].cast_unsigned(),
        _ => choices.below(256) as u64 * 50_000_000,
    };
    let [key, id, seq, call, worker, lane] = std::array::from_fn(|_| NUMBERS[choices.below(NUMBERS.len())]);
    let (worker, lane, sent, target) = (worker as i32, lane as i32, call.cast_unsigned(), Some(call));
    let [attempt, crashes] = std::array::from_fn(|_| [0, 1, 2, 3, u16::MAX, u16::MAX - 1][choices.below(6)]);
    let (outcome, fate) = (OUTCOMES[choices.below(OUTCOMES.len())], FATES[choices.below(FATES.len())]);
    let (fault, phase) = (FAULTS[choices.below(FAULTS.len())], PHASES[choices.below(PHASES.len())]);
    let (state, done) = (JobState::ALL[choices.below(JobState::ALL.len())], choices.below(2) == 1);
    let what = match choices.below(33) {
        0 => What::EnqueueSent { key },
        1 => What::EnqueueAcked { key, id },
        2 => What::EnqueueFailed { key },
        3 => What::EnqueueUnknown { key },
        4 => What::RolledBack { key, id },
        5 => What::Registered { worker, slots: seq, lease_ns: call },
        6 => What::Claimed { worker, id, lane, seq, attempt, crashes, sent },
        7 => What::Started { worker, id, seq, key, attempt },
        8 => What::Finished { worker, id, seq, outcome },
        9 => What::GivenBack { worker, id, seq, outcome },
        10 => What::Settled { worker, id, seq, fate, outcome, sent },
        11 => What::EffectSent { worker, id, seq },
        12 => What::Effect { id },
        13 => What::LeaseLost { worker },
        14 => What::DeregisterSent { worker },
        15 => What::RescueSent { call },
        16 => What::Rescued { call, worker },
        17 => What::RescueDone { call },
        18 => What::Suspected { worker, id: done.then_some(id) },
        19 => What::CancelAsked { id, done },
        20 => What::RetryAsked { id, done },
        21 => What::Fault { fault, target: target.filter(|_| seq > 0), begins: done },
        22 => What::Phase { phase },
        23 => What::DeleteAsked { id, done },
        24 => What::Resumed { worker, id, seq, from: attempt.into() },
        25 => What::CheckpointSent { worker, id, seq, value: attempt.into() },
        26 => What::CheckpointKept { worker, id, seq, value: attempt.into() },
        27 => What::ScheduleMade { schedule: lane.cast_unsigned(), from_us: seq },
        28 => What::Decided { schedule: lane.cast_unsigned(), until_us: seq },
        29 => What::PauseAsked { schedule: lane.cast_unsigned(), paused: attempt > 1, done, wall_us: seq },
        30 => What::RunAsked { schedule: lane.cast_unsigned() },
        31 => What::Ran { schedule: lane.cast_unsigned(), id },
        _ => What::Stored { id, key, state, attempt, crashes },
    };
    Event { at, what }
}

const OUTCOMES: [Outcome; 8] = [
    Outcome::Complete,
    Outcome::Retry,
    Outcome::Snooze,
    Outcome::Cancel,
    Outcome::Discard,
    Outcome::NoHandler,
    Outcome::Return,
    Outcome::Interrupted,
];
const FATES: [Fate; 4] = [Fate::Accepted, Fate::Already, Fate::Refused, Fate::Unknown];
const FAULTS: [Fault; 8] = [
    Fault::Kill,
    Fault::Pause,
    Fault::Terminate,
    Fault::DatabaseCrash,
    Fault::ConnectionCut,
    Fault::Failover,
    Fault::Dump,
    Fault::Restore,
];
const PHASES: [Phase; 4] = [Phase::Heal, Phase::Drained, Phase::Stuck, Phase::Dumped];

fn round_trip(events: &[Event]) {
    let mut file = b"{\"process\":7}\n".to_vec();
    for event in events {
        serde_json::to_writer(&mut file, event).expect("events are plain values");
        file.push(b'\n');
    }
    let log = ProcessLog::parse("p", &file).expect("reads what was written");
    assert_eq!((log.number, &*log.events, log.torn_bytes), (7, events, 0));
}

fn ticking(schedule: u32) -> Ticking {
    Ticking {
        schedule,
        every_s: schedule,
        fires_all: schedule == 0,
        overlaps: schedule == 0,
        queues: schedule == 1,
        most_missed: 3,
    }
}

fn judge(logs: Vec<ProcessLog>) {
    let history = History::of(logs);
    let rate = RateLimit::new(2, Duration::from_secs(1));
    for bits in 0..4 {
        let rules = Rules {
            planned_faults: bits,
            removes_completed: bits & 1 != 0,
            may_lose_commits: bits & 2 != 0,
            most_living_second_starts: (bits & 2 != 0).then_some(bits),
            takes_back: bits & 2 != 0,
            limit: if bits & 2 == 0 { 0 } else { 3 },
            rate: (bits & 1 != 0).then_some(rate),
            keys: if bits & 2 == 0 { 0 } else { 4 },
            all_serial: bits == 3,
            key_rate: (bits & 1 != 0).then_some(rate),
            unique_keys: 0,
            replaced_keys: if bits & 1 == 0 { 0 } else { 2 },
            expires: bits & 1 != 0,
            waits: bits & 2 != 0,
            listens: bits & 1 != 0,
            schedules: (0..2).map(ticking).collect(),
            recovers: bits & 1 == 0,
        };
        let report = check(&history, &rules);
        assert_eq!(report.counts.events, history.events.len() as u64);
        for violation in &report.violations {
            let _ = tell(&history, violation.job.unwrap_or(0));
        }
    }
}
