use crate::{Call, Client, CollectingDesk, Desk, Engine, Failure, WorkerSpec, worker_spec::Lenders};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use windlass::{WorkerStats, lend::Bell};

/// A worker whose jobs are run by the caller, at one or several [desks](Desk).
#[derive(Debug)]
pub struct Worker {
    engine: Engine,
    inner: Arc<windlass::Worker>,
    lenders: Lenders,
}

impl Worker {
    /// Registers with the store and begins to take jobs.
    ///
    /// # Errors
    /// An option that cannot work, or the store's.
    pub fn start(client: &Client, spec: &WorkerSpec) -> Result<Self, Failure> {
        let engine = client.engine().clone();
        let lenders = Lenders::default();
        let held = client.held();
        let inner = Arc::new(engine.run(spec.builder(&client.inner, &lenders).start())?);
        let (ended, closing) = (Arc::clone(&inner), lenders.clone());
        let wait = async move {
            ended.wait().await;
            held.end().await;
            Ok::<_, Failure>(())
        };
        engine.start(wait, move |_| closing.close())?;
        Ok(Self { engine, inner, lenders })
    }

    /// Makes a place where jobs are taken: one for each event loop, thread or process.
    ///
    /// # Errors
    /// In a forked child, which would run the jobs of its parent.
    pub fn desk(&self, bell: impl Bell) -> Result<Desk, Failure> {
        self.engine.check()?;
        Ok(Desk::new(&self.lenders.desk, bell))
    }

    /// The same for jobs of [blocking kinds](WorkerSpec::blocking_kinds): one for each thread.
    ///
    /// # Errors
    /// In a forked child.
    pub fn blocking_desk(&self, bell: impl Bell) -> Result<Desk, Failure> {
        self.engine.check()?;
        Ok(Desk::new(&self.lenders.blocking, bell))
    }

    /// The same for jobs of [kinds that child processes run](WorkerSpec::child_kinds): one for each process.
    ///
    /// # Errors
    /// In a forked child.
    pub fn child_desk(&self, bell: impl Bell) -> Result<Desk, Failure> {
        self.engine.check()?;
        Ok(Desk::new(&self.lenders.children, bell))
    }

    /// The same desk for a thread that runs one job after the other, and takes and hands in nothing elsewhere.
    pub fn collecting(&self, desk: Desk) -> CollectingDesk {
        CollectingDesk::new(desk.without_contexts(), self.engine.clone())
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

    /// Calls back when it ended.
    ///
    /// # Errors
    /// In a forked child; nothing is called back then.
    pub fn start_wait(
        &self,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) -> Result<Call, Failure> {
        let inner = Arc::clone(&self.inner);
        let wait = async move {
            inner.wait().await;
            Ok::<_, Failure>(())
        };
        self.engine.start(wait, done)
    }

    /// Calls back when nothing is available to it and nothing runs, or when it ended: nobody works what is left then. For tests.
    ///
    /// # Errors
    /// In a forked child; nothing is called back then.
    pub fn start_until_idle(
        &self,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) -> Result<Call, Failure> {
        let inner = Arc::clone(&self.inner);
        let wait = async move {
            tokio::select! {
                idle = inner.until_idle() => idle,
                () = inner.wait() => Ok(()),
            }
        };
        self.engine.start(wait, done)
    }

    /// Waits until nothing is available to it and nothing runs, for tests.
    ///
    /// # Errors
    /// The store's.
    pub fn wait_until_idle(&self) -> Result<(), Failure> {
        self.engine.run(self.inner.until_idle())
    }

    /// Whether somebody asked it to drain: it ends by itself, then.
    pub fn is_draining(&self) -> bool {
        self.inner.is_draining()
    }

    /// What it did and holds.
    pub fn stats(&self) -> WorkerStats {
        self.inner.stats()
    }
}
