use super::names::{DecodeError, Fate, Fault, Outcome, Phase};
use windlass_core::JobState;

/// The size of one event in a file.
pub const RECORD_BYTES: usize = 40;

/// One thing that happened in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of [`now_ns`](super::now_ns).
    pub at: u64,
    /// What.
    pub what: What,
}

/// What happened. `key` is the number that a producer gives a job before anybody else knows it; `id` is
/// the store's, `seq` the claim's number in its lane, `sent` when the call that this answers began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are named by the words above and of the seam
pub enum What {
    /// A producer is about to enqueue the job.
    EnqueueSent { key: i64 },
    /// The store acknowledged it.
    EnqueueAcked { key: i64, id: i64 },
    /// It was refused or failed for certain: the job must never run.
    EnqueueFailed { key: i64 },
    /// The reply was lost: it may or may not have happened.
    EnqueueUnknown { key: i64 },
    /// The transaction that enqueued it was rolled back: the job must never run.
    RolledBack { key: i64, id: i64 },
    /// A worker registered. `slots`: how many jobs its process runs at once at most.
    Registered { worker: i32, slots: i64, lease_ns: i64 },
    /// A claim handed the job out.
    Claimed { worker: i32, id: i64, lane: i32, seq: i64, attempt: u16, crashes: u16 },
    /// A handler began.
    Started { worker: i32, id: i64, seq: i64, key: i64, attempt: u16 },
    /// A handler ended.
    Finished { worker: i32, id: i64, seq: i64, outcome: Outcome },
    /// The worker is about to give a job back that it did not run.
    GivenBack { worker: i32, id: i64, seq: i64, outcome: Outcome },
    /// A settlement was answered.
    Settled { worker: i32, id: i64, seq: i64, fate: Fate, outcome: Outcome, sent: u64 },
    /// A handler is about to commit its effect and its job's completion in one transaction of its own.
    EffectSent { worker: i32, id: i64, seq: i64 },
    /// The effect of a job in the final dump. Several of one id: it happened several times.
    Effect { id: i64 },
    /// The store told the worker that its lease is lost.
    LeaseLost { worker: i32 },
    /// The worker is about to hand everything back.
    DeregisterSent { worker: i32 },
    /// A rescue begins.
    RescueSent { call: i64 },
    /// It declared this worker dead.
    Rescued { call: i64, worker: i32 },
    /// It was answered.
    RescueDone { call: i64 },
    /// The worker told the store which job it runs alone; none: it is over.
    Suspected { worker: i32, id: Option<i64> },
    /// Somebody is about to cancel the job by its id (`done` false), or the store says it did (true).
    CancelAsked { id: i64, done: bool },
    /// The same of a retry by hand.
    RetryAsked { id: i64, done: bool },
    /// A fault began or ended. `target`: the process it hits; none: all of them.
    Fault { fault: Fault, target: Option<i64>, begins: bool },
    /// The run moved on.
    Phase { phase: Phase },
    /// A job in the final dump. Several of one id: several records of one job.
    Stored { id: i64, key: i64, state: JobState, attempt: u16, crashes: u16 },
}

/// The fields of a record: time, kind, code, two small numbers, a worker, an id and two more.
#[derive(Default)]
struct Record {
    at: u64,
    kind: u8,
    code: u8,
    small: u16,
    worker: i32,
    id: i64,
    a: i64,
    b: i64,
}

const NOBODY: i64 = -1;

impl Event {
    /// The event as the file has it: little endian.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let record = self.record();
        let mut bytes = [0; RECORD_BYTES];
        bytes[0..8].copy_from_slice(&record.at.to_le_bytes());
        bytes[8] = record.kind;
        bytes[9] = record.code;
        bytes[10..12].copy_from_slice(&record.small.to_le_bytes());
        bytes[12..16].copy_from_slice(&record.worker.to_le_bytes());
        bytes[16..24].copy_from_slice(&record.id.to_le_bytes());
        bytes[24..32].copy_from_slice(&record.a.to_le_bytes());
        bytes[32..40].copy_from_slice(&record.b.to_le_bytes());
        bytes
    }

    /// Reads an event back.
    ///
    /// # Errors
    /// Unknown kinds, codes and states; never panics, whatever the bytes.
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Result<Self, DecodeError> {
        let field = |from: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[from..from + 8]);
            eight
        };
        let head = u64::from_le_bytes(field(8)).to_le_bytes();
        Self::of(&Record {
            at: u64::from_le_bytes(field(0)),
            kind: head[0],
            code: head[1],
            small: u16::from_le_bytes([head[2], head[3]]),
            worker: i32::from_le_bytes([head[4], head[5], head[6], head[7]]),
            id: i64::from_le_bytes(field(16)),
            a: i64::from_le_bytes(field(24)),
            b: i64::from_le_bytes(field(32)),
        })
    }

    fn record(&self) -> Record {
        let (at, none) = (self.at, Record::default);
        let record = match self.what {
            What::EnqueueSent { key } => Record { kind: 1, a: key, ..none() },
            What::EnqueueAcked { key, id } => Record { kind: 2, a: key, id, ..none() },
            What::EnqueueFailed { key } => Record { kind: 3, a: key, ..none() },
            What::EnqueueUnknown { key } => Record { kind: 4, a: key, ..none() },
            What::RolledBack { key, id } => Record { kind: 5, a: key, id, ..none() },
            What::Registered { worker, slots, lease_ns } => {
                Record { kind: 6, worker, a: slots, b: lease_ns, ..none() }
            }
            What::Claimed { worker, id, lane, seq, attempt, crashes } => Record {
                kind: 7,
                worker,
                id,
                small: attempt,
                a: seq,
                b: i64::from(lane) << 16 | i64::from(crashes),
                ..none()
            },
            What::Started { worker, id, seq, key, attempt } => {
                Record { kind: 8, worker, id, a: key, b: seq, small: attempt, ..none() }
            }
            What::Finished { worker, id, seq, outcome } => {
                Record { kind: 9, worker, id, b: seq, code: outcome.number(), ..none() }
            }
            What::Settled { worker, id, seq, fate, outcome, sent } => Record {
                kind: 10,
                worker,
                id,
                code: fate.number(),
                small: u16::from(outcome.number()),
                a: sent.cast_signed(),
                b: seq,
                ..none()
            },
            What::GivenBack { worker, id, seq, outcome } => {
                Record { kind: 24, worker, id, b: seq, code: outcome.number(), ..none() }
            }
            What::EffectSent { worker, id, seq } => Record { kind: 22, worker, id, b: seq, ..none() },
            What::Effect { id } => Record { kind: 23, id, ..none() },
            What::LeaseLost { worker } => Record { kind: 11, worker, ..none() },
            What::DeregisterSent { worker } => Record { kind: 12, worker, ..none() },
            What::RescueSent { call } => Record { kind: 13, a: call, ..none() },
            What::Rescued { call, worker } => Record { kind: 14, a: call, worker, ..none() },
            What::RescueDone { call } => Record { kind: 15, a: call, ..none() },
            What::Suspected { worker, id } => Record { kind: 16, worker, id: id.unwrap_or(NOBODY), ..none() },
            What::CancelAsked { id, done } => Record { kind: 17, id, code: u8::from(done), ..none() },
            What::RetryAsked { id, done } => Record { kind: 18, id, code: u8::from(done), ..none() },
            What::Fault { fault, target, begins } => Record {
                kind: 19,
                code: fault.number(),
                a: target.unwrap_or(NOBODY),
                b: i64::from(begins),
                ..none()
            },
            What::Phase { phase } => Record { kind: 20, code: phase.number(), ..none() },
            What::Stored { id, key, state, attempt, crashes } => Record {
                kind: 21,
                id,
                a: key,
                code: JobState::ALL.iter().position(|known| *known == state).map_or(u8::MAX, |n| n as u8),
                small: attempt,
                b: i64::from(crashes),
                ..none()
            },
        };
        Record { at, ..record }
    }

    fn of(record: &Record) -> Result<Self, DecodeError> {
        let Record { at, kind, code, small, worker, id, a, b } = *record;
        let some = |number: i64| (number != NOBODY).then_some(number);
        let what = match kind {
            1 => What::EnqueueSent { key: a },
            2 => What::EnqueueAcked { key: a, id },
            3 => What::EnqueueFailed { key: a },
            4 => What::EnqueueUnknown { key: a },
            5 => What::RolledBack { key: a, id },
            6 => What::Registered { worker, slots: a, lease_ns: b },
            7 => What::Claimed {
                worker,
                id,
                lane: (b >> 16) as i32,
                seq: a,
                attempt: small,
                crashes: (b & 0xffff) as u16,
            },
            8 => What::Started { worker, id, seq: b, key: a, attempt: small },
            9 => What::Finished { worker, id, seq: b, outcome: Outcome::of(code)? },
            10 => What::Settled {
                worker,
                id,
                seq: b,
                fate: Fate::of(code)?,
                outcome: Outcome::of(u8::try_from(small).unwrap_or(u8::MAX))?,
                sent: a.cast_unsigned(),
            },
            11 => What::LeaseLost { worker },
            12 => What::DeregisterSent { worker },
            13 => What::RescueSent { call: a },
            14 => What::Rescued { call: a, worker },
            15 => What::RescueDone { call: a },
            16 => What::Suspected { worker, id: some(id) },
            17 => What::CancelAsked { id, done: code != 0 },
            18 => What::RetryAsked { id, done: code != 0 },
            19 => What::Fault { fault: Fault::of(code)?, target: some(a), begins: b != 0 },
            20 => What::Phase { phase: Phase::of(code)? },
            21 => {
                let state = JobState::ALL.get(usize::from(code)).copied();
                let state = state.ok_or_else(|| DecodeError(format!("unknown state {code}")))?;
                What::Stored { id, key: a, state, attempt: small, crashes: (b & 0xffff) as u16 }
            }
            22 => What::EffectSent { worker, id, seq: b },
            23 => What::Effect { id },
            24 => What::GivenBack { worker, id, seq: b, outcome: Outcome::of(code)? },
            other => return Err(DecodeError(format!("unknown kind {other}"))),
        };
        Ok(Self { at, what })
    }
}
