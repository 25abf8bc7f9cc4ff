use crate::{Client, Desk, Engine, Failure};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use windlass::{
    WorkerBuilder, WorkerStats,
    lend::{Bell, Lender},
};

/// What a worker works.
#[derive(Clone, Debug, Default)]
pub struct WorkerSpec {
    /// Queues, and how many jobs of each run at once. Empty: `default`, 10 at once.
    pub queues: Vec<(String, usize)>,
    /// The kinds that it can run. Empty: any.
    pub kinds: Vec<String>,
    /// How long an attempt may take.
    pub timeout: Option<Duration>,
    /// How long the worker may be silent before others take its jobs.
    pub lease: Option<Duration>,
    /// How long a shutdown lets running jobs go on.
    pub grace_period: Option<Duration>,
}

impl WorkerSpec {
    /// The same as a builder, which lends all its jobs.
    pub fn builder(&self, client: &windlass::Client, lender: &Lender) -> WorkerBuilder {
        let mut builder = windlass::Worker::builder(client);
        for (queue, concurrency) in &self.queues {
            builder = builder.queue(queue, *concurrency);
        }
        builder = match self.kinds.is_empty() {
            true => builder.lend_any(lender),
            false => builder.lend(&self.kinds, lender),
        };
        let builder = match self.timeout {
            Some(timeout) => builder.timeout(timeout),
            None => builder,
        };
        let Self { lease, grace_period, .. } = *self;
        builder.configure(|config| {
            config.lease = lease.unwrap_or(config.lease);
            config.grace_period = grace_period.unwrap_or(config.grace_period);
        })
    }
}

/// A worker whose jobs are run by the caller, at one or several [desks](Desk).
#[derive(Debug)]
pub struct Worker {
    engine: Engine,
    inner: Arc<windlass::Worker>,
    lender: Lender,
}

impl Worker {
    /// Registers with the store and begins to take jobs.
    ///
    /// # Errors
    /// An option that cannot work, or the store's.
    pub fn start(client: &Client, spec: &WorkerSpec) -> Result<Self, Failure> {
        let (engine, lender) = (client.engine().clone(), Lender::new());
        let inner = Arc::new(engine.run(spec.builder(&client.inner, &lender).start())?);
        let (ended, closing) = (Arc::clone(&inner), lender.clone());
        let wait = async move {
            ended.wait().await;
            Ok::<_, Failure>(())
        };
        engine.start(wait, move |_| closing.close())?;
        Ok(Self { engine, inner, lender })
    }

    /// Makes a place where jobs are taken: one for each event loop, thread or process.
    ///
    /// # Errors
    /// In a forked child, which would run the jobs of its parent.
    pub fn desk(&self, bell: impl Bell) -> Result<Desk, Failure> {
        self.engine.check()?;
        Ok(Desk::new(&self.lender, bell))
    }

    /// Begins a graceful shutdown.
    pub fn stop(&self) {
        self.inner.stop();
    }

    /// Hands running jobs back now.
    pub fn abort_now(&self) {
        self.inner.abort_now();
    }

    /// Waits for the worker's end, so long at most; whether it ended.
    ///
    /// # Errors
    /// In a forked child.
    pub fn wait(&self, most: Duration) -> Result<bool, Failure> {
        self.engine.run(async { Ok::<_, Failure>(timeout(most, self.inner.wait()).await.is_ok()) })
    }

    /// Waits until nothing is available to it and nothing runs, for tests.
    ///
    /// # Errors
    /// The store's.
    pub fn wait_until_idle(&self) -> Result<(), Failure> {
        self.engine.run(self.inner.until_idle())
    }

    /// What it did and holds.
    pub fn stats(&self) -> WorkerStats {
        self.inner.stats()
    }
}
