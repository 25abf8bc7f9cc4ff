use serde::{Deserialize, Serialize};
use windlass::StoreKind;
use windlass_cli::failure::{Failure, Outcome};

/// What lies beside the busy queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Burden {
    /// Nothing: how far two stores without any differ
    #[default]
    None,
    /// Other queues, with ten waiting jobs each
    Queues,
    /// Registered workers of another queue, which have nothing to do
    Workers,
    /// Jobs that wait in another queue
    Waiting,
    /// Jobs that are due later, in the course of a day
    Scheduled,
    /// Jobs that failed once, with their errors
    Retryable,
    /// Jobs of a paused queue that the worker of the busy queue works, too
    Paused,
    /// A job that runs during the whole measurement and stands in the oldest segment
    Long,
    /// Jobs of 1 MiB
    Bytes,
}

impl Burden {
    /// The queue of its jobs; the first part of its name, where there are several.
    pub(crate) const QUEUE: &'static str = "windlass-bench.burden";

    /// How much of it a store must hold.
    pub(crate) fn full(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Long => 1,
            Self::Workers => 200,
            Self::Bytes => 5_000,
            Self::Queues => 10_000,
            Self::Scheduled | Self::Retryable | Self::Paused => 1_000_000,
            Self::Waiting => 10_000_000,
        }
    }

    /// Fails when the store cannot hold it.
    pub(crate) fn check(self, amount: u64, kind: StoreKind) -> Outcome {
        // The seam has one writer for a file; workers of one process share it.
        if self == Self::Workers && kind == StoreKind::Sqlite && amount > 1_000 {
            let message =
                "more than 1,000 workers on a SQLite file are not measured; choose a smaller --amount";
            return Err(Failure::usage("unsupported", message));
        }
        Ok(())
    }
}
