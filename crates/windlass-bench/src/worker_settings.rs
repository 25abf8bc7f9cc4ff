use crate::options::QUEUE;
use serde::{Deserialize, Serialize};
use windlass::{Client, Worker, WorkerBuilder};

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

/// How the workers of a case work.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerSettings {
    /// How many jobs each of them runs at once.
    pub(crate) concurrency: usize,
    pub(crate) settling: Settling,
}

impl WorkerSettings {
    /// A worker without handlers.
    pub(crate) fn builder(self, client: &Client) -> WorkerBuilder {
        let settling = match self.settling {
            Settling::Pipelined => windlass::Settling::Pipelined,
            Settling::Strict => windlass::Settling::Strict,
        };
        let builder = Worker::builder(client).queue(QUEUE, self.concurrency);
        builder.configure(move |config| config.settling = settling)
    }
}
