use serde::{Deserialize, Serialize};

/// The args of a run's jobs: which job it is, and what its handler shall do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The number that its producer gave it.
    pub key: i64,
    /// What to do.
    pub act: Act,
}

/// What a handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Completes at once.
    Done,
    /// Completes at once, with its key as the result.
    Return,
    /// Completes after so many milliseconds.
    Sleep(u64),
    /// Fails so many times, then completes.
    Fail(u16),
    /// Fails so many times, then completes; each attempt keeps checkpoints, counting on from the last.
    Checkpoint(u16),
    /// Panics once, then completes.
    Panic,
    /// Is put off until it is so many milliseconds old, then completes.
    Snooze(u64),
    /// Cancels itself.
    Cancel,
    /// Discards itself.
    Discard,
    /// Stores its effect and completes in one PostgreSQL transaction of its own, open for so many milliseconds.
    Effect(u64),
    /// Aborts the process until so many workers died of it, then completes.
    Abort(u16),
    /// Allocates without end.
    Allocate,
    /// Says that it runs, and goes on when the run opens its gate.
    Gate,
}
