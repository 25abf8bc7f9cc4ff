use super::{Load, Order, connect, dismissed, replacing, sweep, wait::Waits};
use crate::{
    bug::Bug,
    database,
    history::{Recorder, What, now_ns},
    keys,
};
use anyhow::Result;
use fastrand::Rng;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;
use windlass::{Client, Conflict, EnqueuedUnique, JobId, NewJob, OnConflict, When};

/// How long a producer rests after a call failed.
const REST: Duration = Duration::from_millis(10);
/// How many of the newest jobs are cancelled and retried by chance: young enough to run just now.
const MEDDLED_WITH: usize = 20;
/// One of so many jobs is waited for.
const WAITED_FOR: usize = 3;
/// How long a job may take until it starts, of those that may not take as long as they like, in milliseconds.
const EXPIRY_MS: std::ops::Range<u64> = 20..1_500;
/// How long it goes on asking under an idempotency key after it was told to stop.
const LAST_PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(order: &Order, load: Load, recorder: Arc<Recorder>) -> Result<()> {
    let client = connect(&order.store).await?;
    let stop = CancellationToken::new();
    if load.sweeps {
        let sweep = sweep::Sweep::new(order, &load, &client, &recorder);
        tokio::spawn(sweep.run(stop.clone()));
    }
    let waits = load.waits.then(|| Waits::new(order, &client, &recorder));
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
            waits: waits.clone(),
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
    if let Some(waits) = waits {
        waits.end().await;
    }
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
    waits: Option<Waits>,
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
        let mut jobs: Vec<NewJob> = keys.iter().map(|key| self.job(*key)).collect();
        if self.load.expires {
            jobs = keys.iter().zip(jobs).map(|(key, job)| self.hurried(*key, job)).collect();
        }
        self.recorder.note_all(keys.iter().map(|key| What::EnqueueSent { key: *key }));
        if self.load.replaces {
            self.replacing(&keys, jobs).await;
        } else if self.load.unique_keys > 0 {
            self.uniquely(&keys, jobs).await;
        } else if self.load.transactions && self.rng.u32(0..20) == 0 {
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

    fn job(&mut self, number: i64) -> NewJob {
        let job = self.load.job(number, &mut self.rng);
        match self.bug == Some(Bug::KeysLost) && self.rng.u32(0..4) == 0 {
            true => job,
            false => self.load.about(job, number),
        }
    }

    /// Some jobs are not to be started late.
    fn hurried(&mut self, key: i64, job: NewJob) -> NewJob {
        if self.rng.u32(0..4) != 0 {
            return job;
        }
        let after_ms = self.rng.u64(EXPIRY_MS);
        self.recorder.note(What::Expires { key, after_ms });
        job.with_expiry(Duration::from_millis(after_ms))
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

    /// Under unique keys that all producers share.
    async fn uniquely(&mut self, keys: &[i64], jobs: Vec<NewJob>) {
        let uniques: Vec<u32> = keys.iter().map(|_| self.rng.u32(0..self.load.unique_keys)).collect();
        let window_ms = self.load.window_ms;
        self.recorder.note_all(keys.iter().zip(&uniques).map(|(key, unique)| match window_ms {
            0 => What::UniqueSent { key: *key, unique: (*unique).into() },
            _ => What::WindowSent { key: *key, unique: (*unique).into(), window_ms },
        }));
        if self.load.transactions && self.rng.u32(0..20) == 0 {
            return self.uniquely_in_transaction(keys, &uniques, jobs).await;
        }
        let rule = match self.rng.u32(0..8) {
            0 => OnConflict::Error,
            1..4 if self.load.extends => OnConflict::Extend,
            _ => OnConflict::Keep,
        };
        let key = |unique: u32| match window_ms {
            0 => keys::unique_key(unique),
            _ => keys::window_key(unique, Duration::from_millis(window_ms)),
        };
        let with_key = |(job, unique): (NewJob, &u32)| job.with_unique(key(*unique).on_conflict(rule));
        let jobs: Vec<NewJob> = jobs.into_iter().zip(&uniques).map(with_key).collect();
        let sent = now_ns();
        match self.client.store().enqueue_unique(&jobs).await {
            Ok(stored) => self.stored_uniquely(keys, &stored, sent),
            Err(error) => self.failed(keys, &error).await,
        }
    }

    /// Where jobs wait under their unique keys they take the place of those.
    async fn replacing(&mut self, keys: &[i64], jobs: Vec<NewJob>) {
        let (notes, jobs) = replacing::jobs(keys, jobs, self.load.unique_keys, &mut self.rng);
        self.recorder.note_all(notes);
        let sent = now_ns();
        match self.client.store().enqueue_unique(&jobs).await {
            Ok(stored) => {
                self.stored_uniquely(keys, &stored, sent);
                let replaced =
                    |(_, stored): &(_, &EnqueuedUnique)| stored.conflict == Some(Conflict::Replaced);
                let waits = |(job, _): &(&NewJob, _)| job.when() != When::Now;
                let mut all = jobs.iter().zip(&stored).rev();
                if let Some((_, last)) = all.find(|both| replaced(both) && waits(both)) {
                    replacing::look_at(last.id, &self.client, &self.recorder).await;
                }
            }
            Err(error) => self.failed(keys, &error).await,
        }
    }

    fn stored_uniquely(&mut self, keys: &[i64], stored: &[EnqueuedUnique], sent: u64) {
        self.recorder.note_all(keys.iter().zip(stored).map(|(key, stored)| match stored.conflict {
            None => What::EnqueueAcked { key: *key, id: stored.id.0 },
            Some(Conflict::Replaced) => What::Replaced { key: *key, id: stored.id.0, sent },
            Some(Conflict::Extended) => What::Extended { key: *key, id: stored.id.0, sent },
            Some(_) => What::Kept { key: *key, id: stored.id.0, sent },
        }));
    }

    /// By plain SQL. Keys in ascending order, as everybody has to take them.
    async fn uniquely_in_transaction(&mut self, keys: &[i64], uniques: &[u32], jobs: Vec<NewJob>) {
        let mut rows: Vec<_> = keys.iter().copied().zip(uniques.iter().copied()).zip(jobs).collect();
        rows.sort_by_key(|((_, unique), _)| *unique);
        let keys: Vec<i64> = rows.iter().map(|((key, _), _)| *key).collect();
        let commits = self.rng.bool();
        let lingers = Duration::from_millis(self.rng.u64(0..60));
        let sent = now_ns();
        match unique_transaction(&self.store, &rows, commits, lingers).await {
            Ok((stored, End::Committed)) => self.stored_uniquely(&keys, &stored, sent),
            Ok((stored, End::RolledBack)) => {
                let new = keys.iter().zip(&stored).map(|(key, stored)| match stored.conflict {
                    None => What::RolledBack { key: *key, id: stored.id.0 },
                    Some(_) => What::EnqueueFailed { key: *key },
                });
                self.recorder.note_all(new);
            }
            Ok((_, End::Unknown)) => {
                self.recorder.note_all(keys.iter().map(|key| What::EnqueueUnknown { key: *key }));
            }
            Err(error) => {
                tracing::debug!(%error, "a transaction failed");
                self.recorder.note_all(keys.iter().map(|key| What::EnqueueFailed { key: *key }));
            }
        }
    }

    fn acknowledged(&mut self, keys: &[i64], ids: &[JobId]) {
        let pairs = keys.iter().zip(ids);
        self.recorder.note_all(pairs.map(|(key, id)| What::EnqueueAcked { key: *key, id: id.0 }));
        if let Some(waits) = &self.waits {
            ids.iter().step_by(WAITED_FOR).for_each(|id| waits.begin(*id));
        }
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

/// A job with its producer's number and its unique one.
type Row = ((i64, u32), NewJob);

/// How a transaction ended.
enum End {
    Committed,
    RolledBack,
    Unknown,
}

/// Stores jobs by plain SQL. An error: nothing happened.
async fn unique_transaction(
    store: &str,
    rows: &[Row],
    commits: bool,
    lingers: Duration,
) -> Result<(Vec<EnqueuedUnique>, End)> {
    let mut database = database::connect(store).await?;
    let transaction = database.transaction().await?;
    let text = "SELECT id, conflict FROM windlass.enqueue_unique($1, $2::text::jsonb, unique_key => $3, unique_in => 'queue',
        queue => $4, priority => $5)";
    let mut stored = Vec::new();
    for ((_, unique), job) in rows {
        let (key, priority) = (format!("unique-{unique}"), i32::from(job.priority()));
        let row = transaction
            .query_one(text, &[&job.kind(), &job.args().as_str(), &key, &job.queue(), &priority])
            .await?;
        let conflict = row.get::<_, Option<&str>>(1).map(|_| Conflict::Kept);
        stored.push(EnqueuedUnique { id: JobId(row.get(0)), conflict });
    }
    tokio::time::sleep(lingers).await;
    if !commits {
        // Dropping the connection rolls back as well, so a failed rollback is one.
        let _ = transaction.rollback().await;
        return Ok((stored, End::RolledBack));
    }
    let end = if transaction.commit().await.is_ok() { End::Committed } else { End::Unknown };
    Ok((stored, end))
}
