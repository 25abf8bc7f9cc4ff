use super::names::{Fate, Fault, Outcome, Phase};
use super::told::Told;
use serde::{Deserialize, Serialize};
use windlass_core::JobState;

/// One thing that happened in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, in nanoseconds of [`now_ns`](super::now_ns).
    pub at: u64,
    /// What.
    pub what: What,
}

/// What happened. `key` is the number that a producer gives a job before anybody else knows it; `id` is
/// the store's, `seq` the claim's number in its lane, `sent` when the call that this answers began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the fields are named by the words above and of the seam
pub enum What {
    /// A producer is about to enqueue the job.
    EnqueueSent { key: i64 },
    /// It is unique until it is finished, among all jobs with this number. Noted together with `EnqueueSent`.
    UniqueSent { key: i64, unique: i64 },
    /// It is unique for so many milliseconds, among all jobs with this number. Noted together with `EnqueueSent`.
    WindowSent { key: i64, unique: i64, window_ms: u64 },
    /// Where another job waits under its unique key it takes that one's place. Noted together with `UniqueSent`.
    ReplaceSent { key: i64 },
    /// It is not to be started later than so many milliseconds after the store has it. Noted together with `EnqueueSent`.
    Expires { key: i64, after_ms: u64 },
    /// The store acknowledged that it did not store it, because job `id` has its unique key.
    Kept { key: i64, id: i64, sent: u64 },
    /// The store acknowledged that it took the place of the job that had its unique key, and is job `id` now.
    Replaced { key: i64, id: i64, sent: u64 },
    /// The store acknowledged that it did not store it, and that job `id`, which has its key, has it for another window.
    Extended { key: i64, id: i64, sent: u64 },
    /// A look at a job that was put in the place of others: it waits until so many microseconds after the first of them was enqueued, and
    /// may until so many.
    PutOff { id: i64, after_us: i64, most_us: i64 },
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
    Claimed { worker: i32, id: i64, lane: i32, seq: i64, attempt: u16, crashes: u16, sent: u64 },
    /// A handler began.
    Started { worker: i32, id: i64, seq: i64, key: i64, attempt: u16 },
    /// A handler ended.
    Finished { worker: i32, id: i64, seq: i64, outcome: Outcome },
    /// A handler is about to complete the job with its key as the result.
    Returned { worker: i32, id: i64, seq: i64 },
    /// The worker is about to give a job back that it did not run.
    GivenBack { worker: i32, id: i64, seq: i64, outcome: Outcome },
    /// A handler was given this as the last checkpoint; 0: there is none.
    Resumed { worker: i32, id: i64, seq: i64, from: u32 },
    /// A handler is about to keep this as a checkpoint.
    CheckpointSent { worker: i32, id: i64, seq: i64, value: u32 },
    /// It was told that it is kept.
    CheckpointKept { worker: i32, id: i64, seq: i64, value: u32 },
    /// A settlement was answered.
    Settled { worker: i32, id: i64, seq: i64, fate: Fate, outcome: Outcome, sent: u64 },
    /// A handler is about to commit its effect and its job's completion in one transaction of its own.
    EffectSent { worker: i32, id: i64, seq: i64 },
    /// The effect of a job in the final dump. Several of one id: it happened several times.
    Effect { id: i64 },
    /// The result of a job in the final dump, as the key that it names.
    StoredResult { id: i64, key: i64 },
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
    /// The same of a deletion.
    DeleteAsked { id: i64, done: bool },
    /// The same of a retry by hand.
    RetryAsked { id: i64, done: bool },
    /// When the faults were over, so many jobs of a limit ran at once, or could start, where so many may.
    Admitted { limit: i64, got: i64 },
    /// A fault began or ended. `target`: the process it hits; none: all of them.
    Fault { fault: Fault, target: Option<i64>, begins: bool },
    /// The run moved on.
    Phase { phase: Phase },
    /// A consumer of events read this of the job, on its page of this number. A page that was read and not kept is read anew: the last
    /// one of its number counts.
    Told { page: u64, id: i64, event: Told },
    /// The injector made a schedule before any worker was there; ticks up to here are none of its.
    ScheduleMade { schedule: u32, from_us: i64 },
    /// The injector looked at schedules; the wall clock then.
    Looked { wall_us: i64 },
    /// It saw up to where one was decided, and which tick had fired last; 0: none.
    Ticked { schedule: u32, decided_us: i64, last_us: i64 },
    /// Somebody is about to pause a schedule, or to have it go on (`done` false), or was told that it is so; the wall clock then.
    PauseAsked { schedule: u32, paused: bool, done: bool, wall_us: i64 },
    /// Somebody is about to run a schedule by hand.
    RunAsked { schedule: u32 },
    /// They were told that this is the job.
    Ran { schedule: u32, id: i64 },
    /// A schedule in the final dump: its ticks up to here were decided.
    Decided { schedule: u32, until_us: i64 },
    /// Somebody who waited for a job's end was told that it is this; none: was told nothing for as long as it had said.
    Waited { id: i64, state: Option<JobState> },
    /// In the final dump: it was cancelled because nobody had started it in time.
    Expired { id: i64 },
    /// A job in the final dump. Several of one id: several records of one job.
    Stored { id: i64, key: i64, state: JobState, attempt: u16, crashes: u16 },
}
