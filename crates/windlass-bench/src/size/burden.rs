use super::place::Place;
use serde::{Deserialize, Serialize};
use windlass_cli::failure::{Failure, Outcome};

/// How many connections the workers' calls, the worker of the busy queue and this program use.
const OTHER_CONNECTIONS: u64 = 40;

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

    /// Fails when the server has too few connections for its workers.
    pub(crate) async fn check(self, amount: u64, place: &Place) -> Outcome {
        let most = place.max_connections().await.filter(|_| self == Self::Workers);
        let Some(most) = most.filter(|most| amount + OTHER_CONNECTIONS > *most) else { return Ok(()) };
        let message = format!(
            "{amount} workers listen on {amount} connections, and {OTHER_CONNECTIONS} are needed beside them; \
             the server has {most}: raise its max_connections, or choose a smaller --amount"
        );
        Err(Failure::usage("unsupported", message))
    }
}
