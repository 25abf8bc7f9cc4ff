//! Programs that work many jobs each, over their stdin and stdout: docs/protocols/stdio.md.

mod child;
mod lines;
mod run;
mod supervisor;

pub(super) use child::Ready;

use crate::failure::{Failure, Outcome};
use child::Child;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use supervisor::supervise;
use tokio::{sync::watch, task::JoinSet};
use windlass::lend::Lender;

/// The most processes of one worker.
const MAX_PROCESSES: usize = 1_000;

/// The processes of a worker.
pub(super) struct Pool {
    shared: Arc<Shared>,
    /// What the first of them said; the others have to say the same.
    ready: Ready,
    processes: usize,
    supervisors: JoinSet<()>,
}

/// What the supervisors of the processes share.
struct Shared {
    command: String,
    lender: Lender,
    /// No process is to be started any more.
    closing: watch::Sender<bool>,
    started: AtomicU64,
    died: AtomicU64,
    refused: AtomicU64,
}

/// What became of the processes of a worker.
#[derive(Clone, Copy)]
pub(super) struct PoolStats {
    pub(super) started: u64,
    pub(super) died: u64,
    pub(super) refused: u64,
}

impl Pool {
    /// Starts the processes, and waits until the first one is ready.
    pub(super) async fn start(command: &str, processes: usize) -> Outcome<Self> {
        if !(1..=MAX_PROCESSES).contains(&processes) {
            let message = format!("--processes must be 1 to {MAX_PROCESSES}, got {processes}");
            return Err(Failure::usage("invalid_option", message));
        }
        let shared = Arc::new(Shared {
            command: command.to_owned(),
            lender: Lender::new(),
            closing: watch::Sender::new(false),
            started: AtomicU64::new(0),
            died: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let first = Child::start(&shared, 0, None).await;
        let first = first.map_err(|why| Failure::failed("stdio", format!("sh -c {command:?} {why}")))?;
        let ready = first.ready.clone();
        let mut supervisors = JoinSet::new();
        let mut first = Some(first);
        for index in 0..processes {
            supervisors.spawn(supervise(Arc::clone(&shared), index, ready.clone(), first.take()));
        }
        Ok(Self { shared, ready, processes, supervisors })
    }

    pub(super) fn lender(&self) -> &Lender {
        &self.shared.lender
    }

    /// The kinds that the processes run; empty: any.
    pub(super) fn kinds(&self) -> &[String] {
        &self.ready.kinds
    }

    /// How long attempts of single kinds may take.
    pub(super) fn timeouts(&self) -> &BTreeMap<String, Duration> {
        &self.ready.timeouts
    }

    /// How many jobs run at once in all processes.
    pub(super) fn places(&self) -> usize {
        self.processes * self.ready.concurrency
    }

    /// The worker ended: lets the processes end.
    pub(super) async fn stop(mut self) -> PoolStats {
        self.shared.closing.send_replace(true);
        self.shared.lender.close();
        while self.supervisors.join_next().await.is_some() {}
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Shared { started, died, refused, .. } = &*self.shared;
        PoolStats { started: read(started), died: read(died), refused: read(refused) }
    }
}
