use crate::history::Fault;
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// How many violations of one invariant a report keeps; the rest is counted.
const KEPT: usize = 5;

/// What must hold, by the numbers of `docs/guarantees.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Invariant {
    /// Every acknowledged job is settled or still stored, and a settled one ran.
    I1,
    /// Nothing runs that was never enqueued, failed for certain, or was rolled back.
    I2,
    /// Never two live leases on one job.
    I3,
    /// A second start only when the first lease was lost, and a fault explains it.
    I4,
    /// No write by a fenced worker is accepted.
    I5,
    /// Attempts and crash counts are exact.
    I6,
    /// Never two jobs of one key.
    I7,
    /// Order within a serial key.
    I8,
    /// No more handlers at once than slots, nor than limits of queues and keys allow.
    I9,
    /// Each tick of a schedule fires once.
    I10,
    /// A flow's parent runs once, after its children. Joins with flows.
    I11,
    /// After an outage throughput is back, and after all of them everything drains.
    I12,
    /// A settled job has exactly one terminal record.
    I13,
    /// Events tell everything that happened once, in order.
    I14,
}

impl Invariant {
    /// Every one, in order.
    pub const ALL: [Self; 14] = [
        Self::I1,
        Self::I2,
        Self::I3,
        Self::I4,
        Self::I5,
        Self::I6,
        Self::I7,
        Self::I8,
        Self::I9,
        Self::I10,
        Self::I11,
        Self::I12,
        Self::I13,
        Self::I14,
    ];

    /// In a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::I1 => "no acknowledged job is lost",
            Self::I2 => "nothing runs that was not enqueued",
            Self::I3 => "never two live leases on one job",
            Self::I4 => "every second start is explained",
            Self::I5 => "no write by a fenced worker",
            Self::I6 => "attempts and crash counts are exact",
            Self::I7 => "never two jobs of one key",
            Self::I8 => "order within a serial key",
            Self::I9 => "never more handlers than slots",
            Self::I10 => "each tick of a schedule fires once",
            Self::I11 => "flow parents run once, last",
            Self::I12 => "throughput is back after outages",
            Self::I13 => "one terminal record per job",
            Self::I14 => "events tell everything once",
        }
    }

    /// Whether the feature that it is about exists yet.
    pub const fn is_checked(self) -> bool {
        !matches!(self, Self::I11)
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a history proves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every checked invariant held.
    Valid,
    /// At least one was broken.
    Invalid,
    /// Nothing: the run was not what it was meant to be. Fails a run as much as a broken invariant.
    #[default]
    Unknown,
}

/// One broken promise.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// The job, by the store's id, if it is about one.
    pub job: Option<i64>,
    /// What happened.
    pub text: String,
}

/// What the history holds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Jobs that anybody knows.
    pub jobs: u64,
    /// Enqueues that the store acknowledged.
    pub acknowledged: u64,
    /// Enqueues whose reply was lost.
    pub unknown_enqueues: u64,
    /// Handlers that began.
    pub starts: u64,
    /// Starts beyond a job's first, retries left out: each was explained, or there is a violation.
    pub second_starts: u64,
    /// Second starts by the fault that explains them.
    pub explained_by: BTreeMap<Fault, u64>,
    /// Second starts of jobs whose first worker's process lived, where a run bounds them.
    pub living_second_starts: u64,
    /// Leases that such processes held from before an outage until after it.
    pub held_through_outages: u64,
    /// Settlements that the store refused: the writes of fenced workers.
    pub refused_writes: u64,
    /// How often a worker was told that its lease is lost.
    pub lost_leases: u64,
    /// Jobs of which somebody was told that they are cancelled or deleted.
    pub taken_back: u64,
    /// Checkpoints that handlers were told are kept.
    pub checkpoints: u64,
    /// Ticks of schedules that fired.
    pub ticks: u64,
    /// Faults by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Outages whose recovery was measured.
    pub recoveries: u64,
    /// The slowest of them, in milliseconds.
    pub slowest_recovery_ms: u64,
    /// Processes, each start counted.
    pub processes: u64,
    /// Events.
    pub events: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The verdict.
    pub verdict: Verdict,
    /// Broken promises, the first few of each invariant.
    pub violations: Vec<Violation>,
    /// How many there are of each.
    pub violated: BTreeMap<Invariant, u64>,
    /// What else must not be, as the run itself noticed.
    pub failures: Vec<String>,
    /// Why the verdict is unknown.
    pub unknowns: Vec<String>,
    /// What single checks missed.
    #[serde(skip)]
    pub(super) doubts: Vec<String>,
    /// What the history holds.
    pub counts: Counts,
}

impl Report {
    pub(super) fn violate(&mut self, invariant: Invariant, job: Option<i64>, text: String) {
        let count = self.violated.entry(invariant).or_default();
        *count += 1;
        if *count <= KEPT as u64 {
            self.violations.push(Violation { invariant, job, text });
        }
    }

    /// Adds failures that the run itself noticed.
    pub(crate) fn blame(&mut self, failures: Vec<String>) {
        if !failures.is_empty() {
            self.failures.extend(failures);
            self.verdict = Verdict::Invalid;
        }
    }

    pub(super) fn conclude(&mut self, unknowns: Vec<String>) {
        self.verdict = match (self.violated.is_empty(), unknowns.is_empty()) {
            (false, _) => Verdict::Invalid,
            (true, false) => Verdict::Unknown,
            (true, true) => Verdict::Valid,
        };
        self.unknowns = unknowns;
    }
}
