use super::{
    fault::{Call, Fault, Process},
    history::What,
    model::Model,
    store::FakeStore,
};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::{Error, ErrorKind, Result, WorkerId};

impl FakeStore {
    pub(super) async fn act<T>(
        &self,
        call: Call,
        worker: Option<WorkerId>,
        act: impl FnOnce(&mut Model) -> Result<T>,
    ) -> Result<T> {
        // A store gives other tasks a turn from time to time.
        tokio::task::coop::consume_budget().await;
        if !self.process().dead {
            self.lock().history.note(self.client(), What::Asked { call, worker });
        }
        self.reachable().await;
        let fault = self.decide(call, worker);
        let takes_lease = matches!(fault, Fault::TakeLeaseAfter(_));
        let (mut happens, mut error, mut late) = (true, None, Duration::ZERO);
        match fault {
            Fault::None => {}
            Fault::Fail(kind) => (happens, error) = (false, Some(kind)),
            Fault::LoseReply => error = Some(ErrorKind::Ambiguous),
            Fault::Gate(gate) => gate.acquire().await.unwrap().forget(),
            Fault::Slow(delay) => sleep(delay).await,
            Fault::Late { before, happens: it_does, after, error: kind } => {
                sleep(before).await;
                (happens, error, late) = (it_does, kind, after);
            }
            Fault::TakeLeaseAfter(after) => late = after,
            Fault::TakeLease => self.lock().end_lease(worker.expect("a call of a worker")),
        }
        let failure = error.map(|kind| Error::new(kind, format!("{call:?} fails on request")));
        let result = match failure {
            Some(failure) if !happens => Err(failure),
            failure => {
                let result = act(&mut self.lock());
                self.announce_change();
                failure.map_or(result, Err)
            }
        };
        if let (Some(worker), true) = (worker, takes_lease) {
            self.lock().end_lease(worker);
        }
        if !late.is_zero() {
            sleep(late).await;
        }
        self.reachable().await;
        if let (Err(error), Some(worker)) = (&result, worker)
            && error.is_lease_lost()
        {
            self.lock().history.note(self.client(), What::ToldLost { call, worker });
        }
        result
    }

    /// Waits while this process is cut off; for ever when it is dead.
    async fn reachable(&self) {
        loop {
            match self.process() {
                Process { dead: true, .. } => std::future::pending().await,
                Process { cut_off: Some(until), .. } if until > Instant::now() => sleep_until(until).await,
                _ => return,
            }
        }
    }

    pub fn is_dead(&self, client: usize) -> bool {
        self.processes().get(client).is_some_and(|process| process.dead)
    }

    fn process(&self) -> Process {
        self.processes().get(self.client()).copied().unwrap_or_default()
    }

    fn change_process(&self, client: usize, change: impl FnOnce(&mut Process)) {
        let mut processes = self.processes();
        let count = processes.len().max(client + 1);
        processes.resize(count, Process::default());
        change(&mut processes[client]);
    }

    /// Kills a process.
    pub fn kill(&self, client: usize) {
        self.change_process(client, |process| process.dead = true);
        self.lock().history.note(client, What::Crashed);
    }

    /// Cuts a process off from the store.
    pub fn cut_off(&self, client: usize, until: Instant) {
        self.change_process(client, |process| process.cut_off = Some(until));
    }
}
