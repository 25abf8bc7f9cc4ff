use crate::{
    finding::Finding,
    jobs::Racer,
    measure::round,
    meter::Meter,
    options::{MAX_JOBS, QUEUE},
    race::{Race, Stored},
    store::{connect, connect_each},
    worker_settings::Settling,
};
use serde_json::json;
use std::{sync::Arc, time::Instant};
use windlass::{Client, Context, IntoJob, NewJob, Result, Unique, Worker};
use windlass_cli::{
    failure::{Failure, Outcome},
    globals::Globals,
    measure::{MeasuredStore, per_second},
    progress::Progress,
};

/// How many jobs the worker runs at once.
const CONCURRENCY: usize = 100;
/// Jobs race for a few unique keys from several connections, while a worker runs what was stored. Fails unless each stored job ran
/// once, no two of a key ran at once, and each key is free in the end
#[derive(clap::Args)]
pub(crate) struct UniqueKeys {
    /// How many jobs are enqueued; most find their key taken
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// How many keys they have
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    keys: u64,
    /// How many connections enqueue at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    clients: u16,
    /// How many jobs a call has
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: u64,
}

impl UniqueKeys {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let meter = Meter::open(store).await;
        let client = connect(store, usize::from(self.clients)).await?;
        client.migrate().await?;
        let race = Arc::new(Race::over(self.keys));
        let beside = connect_each(&store.url, 1).await?;
        let worker = worker(&beside[0], &race).await?;
        let mut progress = Progress::new("asked for", self.jobs, globals.json);
        let began = Instant::now();
        let mut stored = self.enqueue_all(&client, &mut progress).await?;
        let took = began.elapsed();
        drop(progress);
        worker.until_idle().await?;
        // Now nobody has a key.
        let all: Vec<NewJob> = (0..self.keys).map(job).collect::<Result<_>>()?;
        for part in all.chunks(self.batch as usize) {
            let answers = client.enqueue_many_unique(part.to_vec()).await?;
            if let Some(taken) = answers.iter().find(|answer| answer.conflict.is_some()) {
                let message = format!("job {} has its key though everything ended", taken.id);
                return Err(Failure::failed("internal", message));
            }
            stored.note(&answers);
        }
        worker.until_idle().await?;
        let costs = meter.costs(&meter.read().await, self.jobs);
        worker.shutdown().await;
        race.verify(&stored).map_err(|message| Failure::failed("internal", message))?;
        beside[0].close().await;
        client.close().await;
        let commits = meter.commits_per_job(self.jobs).await;
        let options =
            json!({ "jobs": self.jobs, "keys": self.keys, "clients": self.clients, "batch": self.batch });
        let figures = json!({
            "asked_seconds": round(took.as_secs_f64()),
            "asked_per_second": per_second(self.jobs, took),
            "stored": stored.new.len() as u64 - self.keys,
            "doubled": 0,
            "lost": 0,
        });
        Ok(Finding::new("unique", Settling::default(), (options, figures)).costing(costs, commits))
    }

    /// Each client asks for its part of the jobs, of keys as by chance.
    async fn enqueue_all(&self, client: &Client, progress: &mut Progress) -> Outcome<Stored> {
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..u64::from(self.clients) {
            let (client, keys, batch) = (client.clone(), self.keys, self.batch);
            let part = |client: u64| self.jobs * client / u64::from(self.clients);
            let numbers: Vec<u64> = (part(number)..part(number + 1)).collect();
            clients.spawn(async move {
                let mut stored = Stored::default();
                for numbers in numbers.chunks(batch as usize) {
                    let jobs = numbers.iter().map(|number| job(scattered(*number) % keys));
                    stored.note(&client.enqueue_many_unique(jobs.collect::<Result<Vec<_>>>()?).await?);
                }
                Ok::<_, windlass::Error>(stored)
            });
        }
        let mut all = Stored::default();
        while let Some(ended) = clients.join_next().await {
            all.join(ended.map_err(|error| Failure::failed("internal", error.to_string()))??);
            progress.reach(all.asked);
        }
        Ok(all)
    }
}

/// A number as if by chance (Fibonacci hashing).
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn job(key: u64) -> Result<NewJob> {
    let unique = Unique::by_key(format!("race-{key}"));
    Ok(Racer { key }.into_job()?.with_queue(QUEUE).with_unique(unique))
}

async fn worker(client: &Client, race: &Arc<Race>) -> Result<Worker> {
    let race = Arc::clone(race);
    let run = move |job: Racer, ctx: Context| {
        let race = Arc::clone(&race);
        async move { race.run(job.key, ctx.id()) }
    };
    Worker::builder(client).queue(QUEUE, CONCURRENCY).handle::<Racer, _>(run).start().await
}
