use crate::idle::Source;
use std::io;
use tracing::info;
use windlass_core::Result;
use windlass_runtime::{EngineHandle, WorkerStats};

/// A running worker. Dropping it begins a graceful shutdown in the background.
#[derive(Debug)]
pub struct Worker {
    engine: EngineHandle,
    source: Source,
}

impl Worker {
    pub(crate) fn new(engine: EngineHandle, source: Source) -> Self {
        Self { engine, source }
    }

    /// Waits until nothing is available to this worker and it has nothing in hand. Jobs that wait for their time, for another
    /// worker's handlers or for a paused queue are not available; those that wait for the rate of their queue or key are waited for. So is what a worker holds whose lease is
    /// over: this one takes it back, when it has been there for as long as such a lease. What is not taken back some seconds after that is left, and a warning says how many jobs
    /// that are. The worker goes on: [`Self::shutdown`] ends it.
    ///
    /// ```
    /// # use windlass::{Client, RawJob, Worker};
    /// # async fn example(client: &Client) -> windlass::Result<()> {
    /// let worker = Worker::builder(client).handle_kind("tidy", |_: RawJob| async {}).start().await?;
    /// worker.until_idle().await?; // all that was there is done
    /// worker.shutdown().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The store's, but for one that cannot be reached: it is waited for.
    pub async fn until_idle(&self) -> Result<()> {
        self.source.until_idle(&self.engine).await
    }

    /// Works until SIGINT or SIGTERM (Ctrl-C elsewhere), then shuts down gracefully. A second signal
    /// ends the grace period: running jobs are handed back at once.
    ///
    /// # Errors
    /// When the process cannot listen for signals.
    pub async fn run_until_signal(&self) -> io::Result<()> {
        let mut signals = Signals::listen()?;
        self.run_until(async || signals.next().await).await;
        Ok(())
    }

    /// As [`Self::run_until_signal`], for a process that listens to signals itself, such as one that does so before the worker
    /// starts: `signal` waits for the next one.
    pub async fn run_until(&self, mut signal: impl AsyncFnMut()) {
        let mut received = 0_u32;
        loop {
            tokio::select! {
                () = self.engine.wait() => return,
                () = signal() => received += 1,
            }
            if received == 1 {
                info!("shutting down; a second signal hands back running jobs at once");
                self.engine.stop();
            } else {
                self.engine.abort_now();
            }
        }
    }

    /// Shuts down gracefully: claims no more, hands back what is not started, lets running jobs finish
    /// within the grace period. Returns when the worker is gone.
    pub async fn shutdown(&self) {
        self.engine.shutdown().await;
    }

    /// Begins a graceful shutdown and returns at once.
    pub fn stop(&self) {
        self.engine.stop();
    }

    /// Drops running handlers and hands their jobs back now; [`Self::wait`] waits for the end.
    pub fn abort_now(&self) {
        self.engine.abort_now();
    }

    /// Waits until the worker ended, however that came about.
    pub async fn wait(&self) {
        self.engine.wait().await;
    }

    /// Whether somebody [asked it to drain](crate::Client::drain_worker): it ends by itself, then.
    pub fn is_draining(&self) -> bool {
        self.engine.is_draining()
    }

    /// What the worker did and holds.
    pub fn stats(&self) -> WorkerStats {
        self.engine.stats()
    }
}

/// The signals that ask a process to end.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
