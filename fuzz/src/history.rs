//! History files and the checker on anything at all: never a panic, never without end.

use super::queue::Choices;
use windlass_chaos::{
    checker::{Rules, check, tell},
    history::{Event, History, MAGIC, ProcessLog, RECORD_BYTES},
};

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
    65_535,
];

/// Reads the bytes as a file, and then makes events of them.
pub fn body(data: &[u8]) {
    if let Ok(log) = ProcessLog::parse("p", data) {
        round_trip(&log.events);
    }
    let mut file = MAGIC.to_vec();
    file.extend(7_u64.to_le_bytes());
    file.extend(data);
    if let Ok(log) = ProcessLog::parse("p", &file) {
        assert_eq!(log.events.len() * RECORD_BYTES + log.torn_bytes, data.len());
        round_trip(&log.events);
        judge(vec![log]);
    }
    let mut choices = Choices::new(data);
    let mut logs: Vec<ProcessLog> = (0..3).map(|number| log(number, Vec::new())).collect();
    while !choices.is_empty() {
        let process = choices.below(3);
        if let Ok(event) = Event::decode(&record(&mut choices)) {
            logs[process].events.push(event);
        }
    }
    logs.iter().for_each(|log| round_trip(&log.events));
    judge(logs);
}

fn log(number: i64, events: Vec<Event>) -> ProcessLog {
    ProcessLog { number, name: format!("p-{number}"), events, torn_bytes: 0 }
}

/// A record whose kind and code are mostly known ones.
fn record(choices: &mut Choices<'_>) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    let number = |choices: &mut Choices<'_>| NUMBERS[choices.below(NUMBERS.len())];
    let at = match choices.below(4) {
        0 => number(choices).cast_unsigned(),
        _ => choices.below(256) as u64 * 50_000_000,
    };
    bytes[0..8].copy_from_slice(&at.to_le_bytes());
    bytes[8] = choices.below(28) as u8;
    bytes[9] = choices.below(24) as u8;
    let small = [0, 1, 2, 3, u16::MAX, u16::MAX - 1][choices.below(6)];
    bytes[10..12].copy_from_slice(&small.to_le_bytes());
    bytes[12..16].copy_from_slice(&(number(choices) as i32).to_le_bytes());
    for field in [16, 24, 32] {
        bytes[field..field + 8].copy_from_slice(&number(choices).to_le_bytes());
    }
    bytes
}

fn round_trip(events: &[Event]) {
    for event in events {
        assert_eq!(Event::decode(&event.encode()).as_ref(), Ok(event));
    }
}

fn judge(logs: Vec<ProcessLog>) {
    let history = History::of(logs);
    for bits in 0..4 {
        let rules = Rules {
            planned_faults: bits,
            removes_completed: bits & 1 != 0,
            may_lose_commits: bits & 2 != 0,
            most_living_second_starts: (bits & 2 != 0).then_some(bits),
            recovers: bits & 1 == 0,
        };
        let report = check(&history, &rules);
        assert_eq!(report.counts.events, history.events.len() as u64);
        for violation in &report.violations {
            let _ = tell(&history, violation.job.unwrap_or(0));
        }
    }
}
