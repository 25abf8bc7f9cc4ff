use std::fmt;

/// A file that is no history, or one of another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(pub String);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an event: {}", self.0)
    }
}

impl std::error::Error for DecodeError {}

/// A closed list of names with numbers, as the file has them.
macro_rules! coded {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every one of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            pub(super) const fn number(self) -> u8 {
                match self { $(Self::$variant => $number),+ }
            }

            pub(super) fn of(number: u8) -> Result<Self, DecodeError> {
                match number {
                    $($number => Ok(Self::$variant),)+
                    other => Err(DecodeError(format!(concat!("unknown ", stringify!($name), " {}"), other))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

coded!(
    /// How a handler ended, or what a settlement said.
    Outcome {
        /// Done.
        Complete = 0 "complete",
        /// Failed, to be tried again.
        Retry = 1 "retry",
        /// Put off.
        Snooze = 2 "snooze",
        /// Cancelled by its handler.
        Cancel = 3 "cancel",
        /// Dead: by its handler or out of attempts.
        Discard = 4 "discard",
        /// No handler here.
        Park = 5 "park",
        /// Handed back.
        Return = 6 "return",
        /// The handler's future was dropped.
        Interrupted = 7 "interrupted",
    }
);

coded!(
    /// What a store says to a settlement.
    Fate {
        /// Written.
        Accepted = 0 "accepted",
        /// Had been written before.
        Already = 1 "already",
        /// Not this worker's.
        Refused = 2 "refused",
        /// The reply was lost.
        Unknown = 3 "unknown",
    }
);

coded!(
    /// What the injector does.
    Fault {
        /// SIGKILL of a process.
        Kill = 0 "kill",
        /// SIGSTOP, until it ends with SIGCONT.
        Pause = 1 "pause",
        /// SIGTERM: a graceful shutdown.
        Terminate = 2 "terminate",
        /// The process died of its memory cap.
        MemoryCap = 3 "memory_cap",
        /// The database went down as in a crash, until it is back.
        DatabaseCrash = 4 "database_crash",
        /// The database was restarted cleanly, until it is back.
        DatabaseRestart = 5 "database_restart",
        /// A server process was terminated.
        BackendTerminated = 6 "backend_terminated",
        /// Connections were cut, until they may come back.
        ConnectionCut = 7 "connection_cut",
        /// Bytes vanish while sockets stay open.
        Blackhole = 8 "blackhole",
        /// The network is slow.
        Delay = 9 "delay",
        /// Notifications vanish.
        NotificationsLost = 10 "notifications_lost",
        /// Commits are cut before or after they happen.
        CommitCut = 11 "commit_cut",
        /// No connection is to be had.
        PoolExhausted = 12 "pool_exhausted",
        /// The disk is full.
        DiskFull = 13 "disk_full",
        /// The wall clock jumped.
        ClockJump = 14 "clock_jump",
        /// Somebody holds a snapshot.
        HeldSnapshot = 15 "held_snapshot",
        /// The standby took over.
        Failover = 16 "failover",
        /// The connection pooler was restarted.
        PoolerRestart = 17 "pooler_restart",
        /// The process killed itself: a poison job.
        Poison = 18 "poison",
        /// The machine gave the process no processor. Noticed by itself, when it was over.
        Starved = 19 "starved",
        /// A dump was taken: its snapshot lies between begin and end.
        Dump = 20 "dump",
        /// The dump was restored into another cluster, which takes the place of the first. Begins when that one
        /// answers nobody any more and this one nobody yet, ends when everybody reaches this one.
        Restore = 21 "restore",
    }
);

coded!(
    /// The phases of a run.
    Phase {
        /// No faults yet.
        Warm = 0 "warm",
        /// Faults.
        Faults = 1 "faults",
        /// Faults are over: everything must drain.
        Heal = 2 "heal",
        /// Everything drained.
        Drained = 3 "drained",
        /// It did not, within the bound.
        Stuck = 4 "stuck",
        /// The final dump is complete.
        Dumped = 5 "dumped",
    }
);
