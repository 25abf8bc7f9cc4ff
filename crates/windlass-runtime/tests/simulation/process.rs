use crate::{
    check::SUSPECT,
    dice::Dice,
    fake::{FakeStore, history::What},
    handlers::Handlers,
    lent::foreign_loop,
    scenario::{QUEUES, Worker},
    world::World,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::sleep;
use windlass_runtime::{Context, EngineHandle, WorkerEngine, lend::Lender};

/// One process with one worker, from its start to its end or death. Its successor is another one.
pub struct Process {
    pub world: Arc<World>,
    pub store: FakeStore,
    pub worker: Worker,
    /// Handlers that run, by queue; and suspects among them.
    running: Mutex<(BTreeMap<String, usize>, usize)>,
}

impl Process {
    /// Starts a process; `None` when its worker could not register.
    pub async fn start(world: &Arc<World>, worker: &Worker) -> Option<(Arc<Self>, EngineHandle)> {
        let store = world.store.seen_by(world.next_client());
        let (world, running) = (Arc::clone(world), Mutex::default());
        let process = Arc::new(Self { world, store, worker: worker.clone(), running });
        let config = worker.config.clone();
        // Every other process has its jobs run by foreign code.
        let lender = lends(process.client()).then(Lender::new);
        if let Some(lender) = &lender {
            let places = config.queues.iter().map(|queue| queue.concurrency).sum();
            tokio::spawn(foreign_loop(Arc::clone(&process), lender.clone(), places));
        }
        let dispatch =
            Handlers { process: Arc::clone(&process), knows_rare: worker.knows_rare, lender: lender.clone() };
        let engine = WorkerEngine::start(process.store.shared(), config, Arc::new(dispatch)).await.ok()?;
        if let Some(lender) = lender {
            lender.serve(&engine);
        }
        Some((process, engine))
    }

    pub fn client(&self) -> usize {
        self.store.client()
    }

    pub fn is_dead(&self) -> bool {
        self.store.is_dead(self.client())
    }

    /// Enters what a handler did, unless the process is dead.
    pub fn note(&self, what: What) {
        if !self.is_dead() {
            self.store.lock().history.note(self.client(), what);
        }
    }

    pub fn kill(&self) {
        if !self.is_dead() {
            self.store.kill(self.client());
        }
    }

    /// A handler begins.
    pub fn begin(&self, context: &Context) {
        if self.is_dead() {
            return;
        }
        if context.queue() == QUEUES[0] {
            self.world.begins(context.lease().worker, context.id());
        }
        let (attempt, crash_count) = (context.attempt(), context.crash_count());
        self.note(What::Started { lease: context.lease().into(), attempt, crash_count });
        let is_suspect = crash_count >= SUSPECT;
        let (running, suspects) = {
            let mut running = self.running.lock().unwrap();
            running.1 += usize::from(is_suspect);
            let of_queue = running.0.entry(context.queue().to_owned()).or_default();
            *of_queue += 1;
            (*of_queue, running.1)
        };
        let slots = self.concurrency(context.queue());
        let (client, job) = (self.client(), context.id());
        let mut model = self.store.lock();
        if running > slots {
            model.violate(format!("job {job}: {running} handlers run in {slots} slots of client {client}"));
        }
        let announced = model.worker(context.lease().worker).map(|worker| worker.suspect);
        if is_suspect && (suspects > 1 || announced.is_some_and(|announced| announced != Some(job))) {
            model.violate(format!("job {job}: {suspects} suspects run, announced is {announced:?}"));
        }
    }

    /// A handler's future is gone.
    pub fn end(&self, context: &Context) {
        self.world.ends(context.lease().worker, context.id());
        let mut running = self.running.lock().unwrap();
        if let Some(of_queue) = running.0.get_mut(context.queue()) {
            *of_queue = of_queue.saturating_sub(1);
        }
        if context.crash_count() >= SUSPECT {
            running.1 = running.1.saturating_sub(1);
        }
    }

    pub fn concurrency(&self, queue: &str) -> usize {
        let of_queue = self.worker.config.queues.iter().find(|config| config.queue == queue);
        of_queue.map_or(0, |config| config.concurrency)
    }
}

/// Shuts a worker down; a second signal may come.
pub async fn stop(process: Arc<Process>, engine: EngineHandle, second_signal: Option<Duration>) {
    process.note(What::Stopping { grace: process.worker.config.grace_period });
    engine.stop();
    let second = async {
        match second_signal {
            Some(after) => sleep(after).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = engine.wait() => {}
        () = second => {
            process.note(What::Aborting);
            engine.abort_now();
            engine.wait().await;
        }
    }
    process.note(What::Stopped);
}

/// Whether and when a second signal comes.
pub fn second_signal(dice: &mut Dice) -> Option<Duration> {
    dice.percent(40).then(|| dice.millis(0, 3_000))
}

/// Whether jobs of this process are run by foreign code.
pub fn lends(client: usize) -> bool {
    client.is_multiple_of(2)
}
