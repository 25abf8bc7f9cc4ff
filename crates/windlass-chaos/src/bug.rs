//! Seeded bugs: the checker on trial.
//!
//! Each `bug_*` is one real defect, planted where it would be in life: in a function of the migrated
//! schema, between the engine and the store, or in a producer. They are chosen at run time and live in
//! this crate alone, so no build of the product can contain one and one build of the checker can try them
//! all. `windlass-chaos bugs` runs a storm (or what else it shows in) with each and says which invariant caught it.

mod mutant;
mod sql;

pub use sql::{Patch, patch, patches, plant};

use mutant::Mutant;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass::Store;

macro_rules! bugs {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        /// A defect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Bug { $($(#[$doc])* #[serde(rename = $name)] $variant),+ }

        impl Bug {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

bugs! {
    /// A claim hands out jobs again that an earlier claim still holds.
    DoubleClaim = "bug_double_claim",
    /// Some settlements are acknowledged and not written.
    DroppedSettlement = "bug_dropped_settlement",
    /// A batch of settlements is forgotten when the store fails (river#258, asynq#1051).
    DropBatchOnError = "bug_drop_batch_on_error",
    /// Completed ranges become the whole claim, with jobs that never started.
    RestSettlesUnstarted = "bug_rest_settles_unstarted",
    /// Jobs handed back at shutdown are completed instead.
    ReturnCompletes = "bug_return_completes",
    /// A failed job is cancelled instead of tried again.
    RetryCancels = "bug_retry_cancels",
    /// Two jobs of a claim have each other's args (CVE-2023-28858).
    SwappedArgs = "bug_swapped_args",
    /// A worker runs twice as many jobs as it has slots.
    TooManySlots = "bug_too_many_slots",
    /// Jobs are acknowledged before they are committed.
    AckedBeforeCommit = "bug_acked_before_commit",
    /// An enqueue whose answer was lost is repeated without a key.
    BlindRetry = "bug_blind_retry",
    /// Jobs of a rolled-back transaction run.
    RollbackRuns = "bug_rollback_runs",
    /// `synchronous_commit = off` by accident.
    AsyncCommit = "bug_async_commit",
    /// Writes of workers that were declared dead are accepted (river#1302).
    NoFence = "bug_no_fence",
    /// Living workers are declared dead (Oban's Lifeline, Sidekiq#4611).
    RescueByTimeAlone = "bug_rescue_by_time_alone",
    /// A rescue makes jobs available again that are settled.
    RescueReruns = "bug_rescue_reruns_settled",
    /// A dying worker's jobs get no crash count: poison loops for ever.
    CrashNotCounted = "bug_crash_not_counted",
    /// A failed attempt is not counted.
    AttemptNotCounted = "bug_attempt_not_counted",
    /// The cursor steps over transactions that commit late.
    LateCommitsSkipped = "bug_late_commits_skipped",
    /// A failed job is stored nowhere.
    LostRetry = "bug_lost_retry",
    /// A segment is removed with unclaimed jobs in it.
    TruncatesUnclaimed = "bug_truncates_unclaimed",
    /// Cancel takes jobs away from running workers.
    CancelsRunning = "bug_cancels_running",
    /// Leases that ran out during an outage stay over, and whoever is in touch first takes the jobs.
    RescuesOutOfTouch = "bug_rescues_out_of_touch",
    /// A job that waits to be tried again is not seen under its unique key.
    UniqueForgetsRetries = "bug_unique_forgets_retries",
    /// A job has its unique key for a quarter of its window.
    WindowsShort = "bug_windows_short",
    /// A job that was handed out keeps its unique key for ever.
    UniqueNeverFree = "bug_unique_never_free",
    /// A job that takes the place of one that waits for its time brings no args.
    ReplacedRuns = "bug_replaced_runs",
    /// A job that stands in line goes on standing there when another takes its place.
    ReplacedStays = "bug_replaced_stays",
    /// A job is put off for as long as others take its place.
    MaxWaitForgotten = "bug_max_wait_forgotten",
    /// A window that is extended ends when it would have.
    ExtendForgotten = "bug_extend_forgotten",
    /// Two jobs have each other's results.
    SwappedResults = "bug_swapped_results",
    /// Some checkpoints are acknowledged and not written.
    LostCheckpoint = "bug_lost_checkpoint",
    /// Whoever cancels a running job is told that it is cancelled already.
    CancelLies = "bug_cancel_lies",
    /// A deletion is acknowledged and forgotten.
    DeleteForgets = "bug_delete_forgets",
    /// A cancelled job that still stands in the log is handed out.
    CancelledRuns = "bug_cancelled_runs",
    /// Events of transactions that were open at the last look are told of never.
    EventsForgetLate = "bug_events_forget_late",
    /// Slots are given out beyond the limit.
    SlotsOverrun = "bug_slots_overrun",
    /// Starts count for half of their period only.
    StartsForgotten = "bug_starts_forgotten",
    /// What ended of a key does not count for its rate.
    EndedNotCounted = "bug_ended_not_counted",
    /// Some jobs are stored without their key.
    KeysLost = "bug_keys_lost",
    /// Of a serial key the newest job is handed out first.
    SerialOutOfTurn = "bug_serial_out_of_turn",
    /// While a job of a serial key waits to be tried again, the next one is handed out.
    SerialOvertakes = "bug_serial_overtakes",
    /// The slots of a worker that died are lost.
    SlotsLeak = "bug_slots_leak",
    /// The slot of one of two jobs of a key that end together is lost.
    KeySlotsLeak = "bug_key_slots_leak",
    /// A start of a worker that died is lost.
    StartsLeak = "bug_starts_leak",
    /// Steps of schedules are taken whatever has become of the record that they were decided on.
    TicksUnfenced = "bug_ticks_unfenced",
    /// Some ticks are decided without their jobs.
    TicksLost = "bug_ticks_lost",
    /// Workers do not hear that a job expires.
    ExpiredRuns = "bug_expired_runs",
    /// Some who wait for a job are told that it ended otherwise.
    WaitLies = "bug_wait_lies",
    /// Some who wait for a job are told nothing.
    WaitHangs = "bug_wait_hangs",
    /// Every other look at jobs does not see that they have ended.
    EndsUnseen = "bug_ends_unseen",
    /// A tick that waits for the job before is forgotten.
    TicksQueuedLost = "bug_ticks_queued_lost",
    /// Of ticks that were missed none fires.
    TicksMissedLost = "bug_ticks_missed_lost",
    /// Nobody notices that the database came from another cluster.
    MoveUnnoticed = "bug_move_unnoticed",
}

impl Bug {
    /// The bug of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| bug.name() == name)
    }

    /// Whether it needs PostgreSQL.
    pub fn needs_postgres(self) -> bool {
        matches!(self, Self::AsyncCommit | Self::BlindRetry | Self::RollbackRuns | Self::DropBatchOnError)
            || sql::patches(self).is_some()
    }

    /// The scenario that it shows in.
    pub fn scenario(self) -> &'static str {
        match self {
            Self::RescuesOutOfTouch => "outage",
            Self::MoveUnnoticed => "restore",
            Self::EventsForgetLate => "events",
            Self::ExpiredRuns | Self::WaitLies | Self::WaitHangs => "waits",
            Self::SlotsOverrun | Self::SlotsLeak => "limits",
            Self::StartsForgotten | Self::StartsLeak => "rates",
            Self::KeySlotsLeak | Self::KeysLost | Self::EndedNotCounted => "keys",
            Self::SerialOutOfTurn | Self::SerialOvertakes => "serial",
            Self::TicksUnfenced
            | Self::TicksLost
            | Self::EndsUnseen
            | Self::TicksQueuedLost
            | Self::TicksMissedLost => "schedules",
            Self::WindowsShort
            | Self::UniqueForgetsRetries
            | Self::UniqueNeverFree
            | Self::ReplacedRuns
            | Self::ReplacedStays
            | Self::MaxWaitForgotten
            | Self::ExtendForgotten => "unique",
            Self::CancelLies | Self::DeleteForgets | Self::CancelledRuns => "sweeps",
            _ => "storm",
        }
    }

    /// Whether it is between engine and store.
    fn is_between(self) -> bool {
        matches!(
            self,
            Self::DoubleClaim
                | Self::DroppedSettlement
                | Self::DropBatchOnError
                | Self::RestSettlesUnstarted
                | Self::ReturnCompletes
                | Self::RetryCancels
                | Self::SwappedArgs
                | Self::LostCheckpoint
                | Self::CancelLies
                | Self::DeleteForgets
                | Self::EndsUnseen
                | Self::ExpiredRuns
                | Self::WaitLies
                | Self::WaitHangs
                | Self::SwappedResults
        )
    }

    /// Whether it shows only while segments are removed.
    pub fn needs_rotation(self) -> bool {
        self == Self::TruncatesUnclaimed
    }
}

/// The store with the bug, if the bug is between engine and store.
pub fn wrap(bug: Bug, store: Arc<dyn Store>, seed: u64) -> Arc<dyn Store> {
    if bug.is_between() { Arc::new(Mutant::new(bug, store, seed)) } else { store }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_at_least_fifteen_with_names_of_their_own() {
        let names: std::collections::HashSet<_> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        assert!(names.len() >= 15 && names.len() == Bug::ALL.len());
        for bug in Bug::ALL {
            assert_eq!(Bug::of(bug.name()), Some(*bug));
            assert!(bug.name().starts_with("bug_"));
        }
    }

    #[test]
    fn their_numbers_are_those_that_the_documents_say() {
        let text = |path: &str| {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
            std::fs::read_to_string(path).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let (all, settings) = (Bug::ALL.len(), 1);
        let patched = Bug::ALL.iter().filter(|bug| sql::patches(**bug).is_some()).count() - settings;
        let between = Bug::ALL.iter().filter(|bug| bug.is_between()).count();
        let elsewhere = all - patched - settings - between;
        let inside = text("crates/windlass-runtime/Cargo.toml").matches(" bug_").count();
        let orders = crate::permuter::scenarios::all();
        let whole = orders.iter().filter(|scenario| scenario.fits_whole_operations()).count();
        for (path, said) in [
            ("docs/guarantees.md", format!("{all} seeded bugs must be found")),
            ("docs/design/proof.md", format!("{patched} patch the text of a function")),
            ("docs/design/proof.md", format!("{settings} is a setting of the database")),
            ("docs/design/proof.md", format!("{between} sit between engine and store")),
            ("docs/design/proof.md", format!("{elsewhere} in producers and workers")),
            ("docs/design/proof.md", format!("One build tries all {all} ")),
            ("docs/design/proof.md", format!("instead of {all} builds")),
            ("docs/design/proof.md", format!("those {inside} are cargo features")),
            ("docs/design/proof.md", format!("{} scenarios on PostgreSQL, {whole} on SQLite", orders.len())),
            ("docs/design/proof.md", format!("disks, clocks | {} scenarios", crate::scenario::ALL.len())),
        ] {
            assert!(text(path).contains(&said), "{path} should say: {said}");
        }
    }
}
