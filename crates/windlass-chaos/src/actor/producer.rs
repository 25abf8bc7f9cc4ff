use super::{Load, Order, connect, dismissed};
use crate::{
    bug::Bug,
    database,
    history::{Recorder, What},
};
use anyhow::Result;
use fastrand::Rng;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;
use windlass::{Client, JobId, NewJob};

/// How long a producer rests after a call failed.
const REST: Duration = Duration::from_millis(10);
/// How many of the newest jobs are cancelled and retried by chance: young enough to run just now.
const MEDDLED_WITH: usize = 20;
/// How long it goes on asking under an idempotency key after it was told to stop.
const LAST_PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(order: &Order, load: Load, recorder: Arc<Recorder>) -> Result<()> {
    let client = connect(&order.store).await?;
    let stop = CancellationToken::new();
    let mut lanes = tokio::task::JoinSet::new();
    for lane in 0..load.lanes {
        let lane = Lane {
            client: client.clone(),
            store: order.store.clone(),
            recorder: Arc::clone(&recorder),
            rng: Rng::with_seed(order.seed ^ u64::from(lane)),
            next_key: i64::try_from(order.number).unwrap_or(0) << 40 | i64::from(lane) << 32,
            known: Vec::new(),
            bug: order.bug,
            load: Load { rate: load.rate / f64::from(load.lanes), ..load.clone() },
        };
        lanes.spawn(lane.run(stop.clone()));
    }
    let mut signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let all = async { while lanes.join_next().await.is_some() {} };
    tokio::pin!(all);
    tokio::select! {
        () = &mut all => return Ok(()),
        () = dismissed() => {}
        _ = signal.recv() => {}
    }
    stop.cancel();
    all.await;
    Ok(())
}

/// One connection's worth of enqueueing.
struct Lane {
    client: Client,
    store: String,
    recorder: Arc<Recorder>,
    rng: Rng,
    next_key: i64,
    /// Some ids, to meddle with.
    known: Vec<JobId>,
    bug: Option<Bug>,
    load: Load,
}

impl Lane {
    async fn run(mut self, stop: CancellationToken) {
        let began = Instant::now();
        let mut sent = 0_u64;
        let share = self.load.count.map(|count| count / u64::from(self.load.lanes));
        while !stop.is_cancelled() && share.is_none_or(|share| sent < share) {
            let due = began + Duration::from_secs_f64(sent as f64 / self.load.rate);
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => {}
                () = stop.cancelled() => break,
            }
            sent += self.step(&stop).await as u64;
        }
    }

    /// Enqueues once; how many jobs it tried.
    async fn step(&mut self, stop: &CancellationToken) -> usize {
        let count = if self.rng.u32(0..4) == 0 { 1 } else { self.rng.usize(1..=self.load.batch) };
        let keys: Vec<i64> = (0..count as i64).map(|n| self.next_key + n).collect();
        self.next_key += count as i64;
        let jobs: Vec<NewJob> = keys.iter().map(|key| self.load.job(*key, &mut self.rng)).collect();
        self.recorder.note_all(keys.iter().map(|key| What::EnqueueSent { key: *key }));
        if self.load.transactions && self.rng.u32(0..20) == 0 {
            self.in_transaction(&keys, jobs).await;
        } else if self.load.once {
            self.once(&keys, &jobs, stop).await;
        } else {
            self.plainly(&keys, &jobs).await;
        }
        if self.load.meddles && self.rng.u32(0..3) == 0 {
            self.meddle().await;
        }
        count
    }

    async fn plainly(&mut self, keys: &[i64], jobs: &[NewJob]) {
        let mut result = self.client.store().enqueue(jobs).await;
        if self.bug == Some(Bug::BlindRetry) {
            for _ in 0..50 {
                if result.as_ref().is_ok() {
                    break;
                }
                tokio::time::sleep(REST).await;
                result = self.client.store().enqueue(jobs).await;
            }
        }
        if self.bug == Some(Bug::AckedBeforeCommit) && self.rng.u32(0..20) == 0 {
            result = Ok((0..keys.len() as i64).map(|n| JobId(i64::from(u32::MAX) + keys[0] + n)).collect());
        }
        match result {
            Ok(ids) => self.acknowledged(keys, &ids),
            Err(error) => self.failed(keys, &error).await,
        }
    }

    fn acknowledged(&mut self, keys: &[i64], ids: &[JobId]) {
        let pairs = keys.iter().zip(ids);
        self.recorder.note_all(pairs.map(|(key, id)| What::EnqueueAcked { key: *key, id: id.0 }));
        if self.load.meddles {
            self.known.extend(ids.iter().take(2));
            let old = self.known.len().saturating_sub(MEDDLED_WITH);
            self.known.drain(..old);
        }
    }

    async fn failed(&mut self, keys: &[i64], error: &windlass::Error) {
        let unknown = error.is_ambiguous();
        self.recorder.note_all(keys.iter().map(|key| match unknown {
            true => What::EnqueueUnknown { key: *key },
            false => What::EnqueueFailed { key: *key },
        }));
        tracing::debug!(%error, "an enqueue failed");
        tokio::time::sleep(REST).await;
    }

    /// Asks under a key until the answer is known.
    async fn once(&mut self, keys: &[i64], jobs: &[NewJob], stop: &CancellationToken) {
        let name = format!("chaos-{}", keys[0]);
        let mut give_up = None;
        loop {
            match self.client.store().enqueue_once(&name, jobs).await {
                Ok(done) => return self.acknowledged(keys, &done.ids),
                Err(error) if error.is_connection_loss() || error.is_retryable() => {
                    tokio::time::sleep(REST).await;
                }
                Err(error) => return self.failed(keys, &error).await,
            }
            if stop.is_cancelled() {
                let limit = *give_up.get_or_insert_with(|| Instant::now() + LAST_PATIENCE);
                if Instant::now() > limit {
                    self.recorder.note_all(keys.iter().map(|key| What::EnqueueUnknown { key: *key }));
                    return;
                }
            }
        }
    }

    /// A transaction of its own, half of which are rolled back; some stay open for a while.
    async fn in_transaction(&mut self, keys: &[i64], jobs: Vec<NewJob>) {
        let commits = self.rng.bool();
        let lingers = Duration::from_millis(self.rng.u64(0..60));
        match transaction(&self.client, &self.store, jobs, commits, lingers, self.bug).await {
            Transacted::Committed(ids) => self.acknowledged(keys, &ids),
            Transacted::RolledBack(ids) => {
                let pairs = keys.iter().zip(&ids);
                self.recorder.note_all(pairs.map(|(key, id)| What::RolledBack { key: *key, id: id.0 }));
            }
            Transacted::Failed => {
                self.recorder.note_all(keys.iter().map(|key| What::EnqueueFailed { key: *key }));
            }
            Transacted::Unknown => {
                self.recorder.note_all(keys.iter().map(|key| What::EnqueueUnknown { key: *key }));
            }
        }
    }

    async fn meddle(&mut self) {
        let Some(id) = self.rng.choice(&self.known).copied() else { return };
        let retries = self.rng.bool();
        self.recorder.note(match retries {
            true => What::RetryAsked { id: id.0, done: false },
            false => What::CancelAsked { id: id.0, done: false },
        });
        // What came of it, the history of the job shows.
        if retries {
            let _ = self.client.retry(&[id]).await;
        } else {
            let _ = self.client.cancel(&[id]).await;
        }
    }
}

enum Transacted {
    Committed(Vec<JobId>),
    RolledBack(Vec<JobId>),
    Failed,
    Unknown,
}

async fn transaction(
    client: &Client,
    store: &str,
    jobs: Vec<NewJob>,
    commits: bool,
    lingers: Duration,
    bug: Option<Bug>,
) -> Transacted {
    let Ok(mut database) = database::connect(store).await else { return Transacted::Failed };
    let Ok(transaction) = database.transaction().await else { return Transacted::Failed };
    let enqueued = match bug {
        Some(Bug::RollbackRuns) => client.enqueue_many(jobs).await,
        _ => client.enqueue_many_in(&transaction, jobs).await,
    };
    let Ok(ids) = enqueued else { return Transacted::Failed };
    tokio::time::sleep(lingers).await;
    if !commits {
        // Dropping the connection rolls back as well, so a failed rollback is one.
        let _ = transaction.rollback().await;
        return Transacted::RolledBack(ids);
    }
    match transaction.commit().await {
        Ok(()) => Transacted::Committed(ids),
        Err(_) => Transacted::Unknown,
    }
}
