use serde::{Deserialize, Serialize};
use windlass::WorkerConfig;

/// How a worker settles what it handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Settling {
    /// A slot goes on to its next job at once; settlements follow in batches
    #[default]
    Pipelined,
    /// A slot waits until its job's settlement is committed
    Strict,
}

/// The workers of a trial: all take from one queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Team {
    pub(crate) queue: String,
    /// How many jobs each of them runs at once.
    pub(crate) concurrency: usize,
    pub(crate) settling: Settling,
}

impl Team {
    pub(crate) fn new(queue: &str, concurrency: usize) -> Self {
        Self { queue: queue.to_owned(), concurrency, settling: Settling::default() }
    }

    pub(crate) fn settling(mut self, settling: Settling) -> Self {
        self.settling = settling;
        self
    }
}

impl Settling {
    pub(super) fn apply(self, config: &mut WorkerConfig) {
        config.settling = match self {
            Self::Pipelined => windlass::Settling::Pipelined,
            Self::Strict => windlass::Settling::Strict,
        };
    }
}
