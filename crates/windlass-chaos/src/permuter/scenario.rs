//! Scenarios: what a few sessions do, told once for every store.

/// What happened before, and what two or three sessions do then, in all orders.
///
/// Jobs and workers are named by number: jobs in the order in which they are enqueued (first by the setup,
/// then session by session), workers by their place in `workers`.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How it is named in reports and in `WINDLASS_PERMUTE`.
    pub name: &'static str,
    /// The kinds that each worker knows; none: any.
    pub workers: Vec<&'static [&'static str]>,
    /// Done one after the other before the sessions begin.
    pub setup: Vec<Act>,
    /// What each session does.
    pub sessions: Vec<Vec<Op>>,
    /// Whether PostgreSQL's functions stop at gates between their statements, so that the statements of
    /// others come in between. Nothing for SQLite.
    pub inside: bool,
    /// Changes to the schema's functions.
    pub patches: Vec<Patch>,
    /// Whether a deadlock that the server resolves is an outcome and no finding.
    pub may_deadlock: bool,
}

/// One operation in a transaction of its own.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What it does.
    pub act: Act,
    /// How its transaction ends.
    pub end: End,
    /// Whether its transaction gets its id, and looks up where to write, in a step before the operation.
    pub early: bool,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It commits.
    Commit,
    /// It rolls back.
    Rollback,
}

/// An operation of the store, on numbered jobs and workers.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Stores so many jobs of a kind.
    Enqueue(usize, &'static str),
    /// Stores so many jobs of a kind under the order's only idempotency key.
    EnqueueOnce(usize, &'static str),
    /// Stores a job under each of these unique keys, by number.
    Unique(&'static [u8], Way),
    /// Stores a job about each of these keys, by number.
    Keyed(&'static [u8]),
    /// Somebody changes what holds for the keys of the queue.
    LimitKeys(KeyRule),
    /// Somebody changes how many jobs of the queue run at once; none: as many as there are.
    LimitQueue(Option<u32>),
    /// The worker says how many jobs of the queue it runs, and how many it would.
    Share(usize, u32, u32),
    /// Somebody declares the order's schedule. Only in a setup.
    Declare,
    /// Somebody pauses the schedule.
    Pause,
    /// A leader looks at the schedule.
    Look(usize),
    /// The leader decides that the next tick fires, by what it saw when it looked last.
    Fire(usize),
    /// The worker asks for so many jobs.
    Claim(usize, u32),
    /// The worker says that everything it was handed completed.
    CompleteRest(usize),
    /// The worker says that these jobs completed, as one range for each.
    Complete(usize, &'static [usize]),
    /// The worker says what else happened to a job.
    Except(usize, usize, Fate),
    /// The worker completes a job in a user's transaction.
    CompleteIn(usize, usize),
    /// The worker gives a sign of life.
    Heartbeat(usize),
    /// The worker announces that it runs a job alone.
    Suspect(usize, usize),
    /// Somebody looks whether this worker is dead, and takes its jobs.
    Rescue(usize),
    /// The worker ends.
    Deregister(usize),
    /// Somebody makes due jobs available.
    Promote,
    /// Somebody cancels a job.
    Cancel(usize),
    /// Somebody retries a job by hand.
    Retry(usize),
    /// Somebody changes a job.
    Edit(usize, Change),
    /// Somebody deletes a job.
    Delete(usize),
    /// The worker reports of a job that it was handed: this is its checkpoint, and the number of the report.
    Report(usize, usize, u32),
    /// The leader keeps house, with no retention of completed jobs: one step of it on PostgreSQL, where emptying a
    /// segment takes two to four.
    Maintain,
    /// The leader keeps house until the segment that is written is closed; on PostgreSQL it is the next to be emptied
    /// then. Only in a setup.
    Close,
    /// The worker's lease runs out. Only in a setup.
    Expire(usize),
}

/// What happened to a job that did not simply complete. All delays are over at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // named as in windlass_core::Disposition
pub enum Fate {
    Retry,
    Snooze,
    Cancel,
    Discard,
    NoHandler,
    Return,
    /// It completed, with a result.
    Result,
}

/// How unique jobs are enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By one caller; a key is taken until its job is finished, and a conflict keeps the first.
    Keep,
    /// The same until the job is started.
    UntilStarted,
    /// A job that waits and was not tried is replaced.
    Replace,
    /// A conflict is an error.
    Refuse,
    /// As [`Self::Keep`], by as many callers as there are keys, in one statement where the store does that.
    Together,
}

/// How many jobs of a key are held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// As many as there are.
    Free,
    /// So many.
    AtOnce(u32),
    /// One, in the order of their ids, each over before the next.
    Serial,
}

/// What an edit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its args become this number.
    Args(u32),
    /// It moves to another priority, behind or before the others.
    Priority(i16),
    /// It is due now.
    Now,
}

/// A change to a function of the schema: text found in its definition and what stands there instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The function's name.
    pub function: &'static str,
    /// Text that must be in its definition; `{schema}` stands for the quoted schema.
    pub from: &'static str,
    /// What replaces it.
    pub to: &'static str,
}

impl Act {
    /// In a transaction that commits.
    pub fn commit(self) -> Op {
        Op { act: self, end: End::Commit, early: false }
    }

    /// In a transaction that rolls back: the caller changed its mind, or its connection broke.
    pub fn rollback(self) -> Op {
        Op { act: self, end: End::Rollback, early: false }
    }

    /// In a transaction that has its id and knows where to write before it comes to this.
    pub fn early(self) -> Op {
        Op { act: self, end: End::Commit, early: true }
    }

    /// How many gates the operation may pass in PostgreSQL's functions. One that passes fewer leaves steps
    /// without effect, one that passes more takes the last ones when the others are done.
    fn gates(self) -> usize {
        match self {
            Self::Claim(..) | Self::CompleteRest(_) | Self::Complete(..) | Self::Rescue(_) => 2,
            Self::Except(..) | Self::Cancel(_) | Self::Retry(_) | Self::Maintain => 3,
            Self::Edit(..) | Self::Delete(_) => 3,
            Self::Deregister(_) | Self::Report(..) => 2,
            Self::Unique(..) => 1,
            Self::Promote | Self::Suspect(..) | Self::Fire(_) => 1,
            Self::Share(..) => 2,
            _ => 0,
        }
    }
}

impl Scenario {
    /// How many steps each session takes on PostgreSQL: to begin and do it, each gate, and to end it.
    pub fn steps(&self) -> Vec<usize> {
        let of = |op: &Op| 2 + usize::from(op.early) + if self.inside { op.act.gates() } else { 0 };
        self.sessions.iter().map(|ops| ops.iter().map(of).sum()).collect()
    }

    /// How many operations each session has.
    pub fn operations(&self) -> Vec<usize> {
        self.sessions.iter().map(Vec::len).collect()
    }

    /// The same one with gates inside the functions.
    #[must_use]
    pub fn inside(mut self, name: &'static str) -> Self {
        self.name = name;
        self.inside = true;
        self
    }

    /// Whether somebody keeps house in it, which takes locks on tables and waits for others.
    pub fn keeps_house(&self) -> bool {
        self.sessions.iter().flatten().any(|op| matches!(op.act, Act::Maintain))
    }

    /// Whether it means something where every operation is a transaction that commits.
    pub fn fits_whole_operations(&self) -> bool {
        let fits = |op: &Op| op.end == End::Commit && !matches!(op.act, Act::CompleteIn(..));
        !self.inside && self.patches.is_empty() && self.sessions.iter().flatten().all(fits)
    }
}
