use serde::{Deserialize, Serialize};
use windlass_core::JobState;

/// How a handler ended, or what a settlement said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done.
    Complete,
    /// Failed, to be tried again.
    Retry,
    /// Put off.
    Snooze,
    /// Cancelled by its handler.
    Cancel,
    /// Dead: by its handler or out of attempts.
    Discard,
    /// No handler here.
    NoHandler,
    /// Handed back.
    Return,
    /// The handler's future was dropped.
    Interrupted,
}

impl Outcome {
    /// The state that a settlement which says this ends a job in, if it ends it.
    pub const fn final_state(self) -> Option<JobState> {
        match self {
            Self::Complete => Some(JobState::Completed),
            Self::Cancel => Some(JobState::Cancelled),
            Self::Discard => Some(JobState::Discarded),
            _ => None,
        }
    }

    /// Whether a settlement which says this ends the job.
    pub const fn is_final(self) -> bool {
        self.final_state().is_some()
    }
}

/// What a store says to a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Written.
    Accepted,
    /// Had been written before.
    Already,
    /// Not this worker's.
    Refused,
    /// The reply was lost.
    Unknown,
}

/// What the injector does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// SIGKILL of a process.
    Kill,
    /// SIGSTOP, until it ends with SIGCONT.
    Pause,
    /// SIGTERM: a graceful shutdown.
    Terminate,
    /// The process died of its memory cap.
    MemoryCap,
    /// The database went down as in a crash, until it is back.
    DatabaseCrash,
    /// The database was restarted cleanly, until it is back.
    DatabaseRestart,
    /// A server process was terminated.
    BackendTerminated,
    /// Connections were cut, until they may come back.
    ConnectionCut,
    /// Bytes vanish while sockets stay open.
    Blackhole,
    /// The network is slow.
    Delay,
    /// Notifications vanish.
    NotificationsLost,
    /// Commits are cut before or after they happen.
    CommitCut,
    /// No connection is to be had.
    PoolExhausted,
    /// The disk is full.
    DiskFull,
    /// The wall clock jumped.
    ClockJump,
    /// Somebody holds a snapshot.
    HeldSnapshot,
    /// The standby took over.
    Failover,
    /// The connection pooler was restarted.
    PoolerRestart,
    /// The process killed itself: a poison job.
    Poison,
    /// The machine gave the process no processor. Noticed by itself, when it was over.
    Starved,
    /// The disk took long. Noticed by itself, when it was over.
    SlowDisk,
    /// A dump was taken: its snapshot lies between begin and end.
    Dump,
    /// The dump was restored into another cluster, which takes the place of the first. Begins when that one
    /// answers nobody any more and this one nobody yet, ends when everybody reaches this one.
    Restore,
}

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No faults yet.
    Warm,
    /// Faults.
    Faults,
    /// Faults are over: everything must drain.
    Heal,
    /// Everything drained.
    Drained,
    /// It did not, within the bound.
    Stuck,
    /// The final dump is complete.
    Dumped,
}
