use crate::{
    finding::Finding,
    measure::round,
    options::{MAX_CONCURRENCY, MAX_JOBS},
    size::{
        Burden, Busy, Carried, Places, Rounds, Sizes, Task, bars, footprint, keep_house, percent_of_alone,
        unload,
    },
    store::connect,
    worker_settings::Settling,
};
use serde_json::{Value, json};
use windlass_cli::{failure::Outcome, globals::Globals, measure::MeasuredStore, progress::Progress};

/// Drains a busy queue beside a burden, in turns with the same in a store without it. Both stores are made for this, beside the one that
/// is named (schemas windlass_bench_alone and windlass_bench_beside; files with these endings), and removed.
///
/// A burden is made in a process of its own. Each round enqueues a backlog while the queue is paused, and counts from its first
/// claim to its last settlement; then a 500th of the jobs come one by one, a millisecond apart. Afterwards completed jobs are
/// retained for no time, and the same is measured beside housekeeping round after round.
#[derive(clap::Args)]
pub(crate) struct Size {
    /// What lies beside the busy queue
    #[arg(long, value_enum, default_value_t)]
    burden: Burden,
    /// How much of it. Default: what the scenario has
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    amount: Option<u64>,
    /// How many jobs of the busy queue each round drains
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS / 1_000))]
    jobs: u64,
    /// How many rounds each store has
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How many jobs run at once
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: u32,
}

/// What the rounds in both stores measured.
struct Turns {
    alone: Rounds,
    beside: Rounds,
}

impl Size {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let client = connect(store, 1).await?;
        client.migrate().await?; // the report reads from it what store this is
        client.close().await;
        let places = Places::of(store)?;
        self.burden.check(self.amount(), &places.beside).await?;
        places.remove().await?;
        let task = Task {
            url: places.beside.url.clone(),
            burden: self.burden,
            amount: self.amount(),
            place: places.beside.name.clone(),
        };
        let carried = Carried::put(&task).await?;
        let burdened = footprint(&places.beside).await?;
        let concurrency = self.concurrency as usize;
        let mut alone = Busy::start(&places.alone, self.jobs, concurrency, Burden::None).await?;
        let mut beside = Busy::start(&places.beside, self.jobs, concurrency, self.burden).await?;
        let turns = self.take_turns(&mut alone, &mut beside, globals.json).await?;
        alone.stop().await?;
        let drained = footprint(&places.beside).await?;
        let (housed, housekeeping) = keep_house(&mut beside, self.rounds as usize).await?;
        let after_retention = footprint(&places.beside).await?;
        beside.stop().await?;
        let unloaded = match self.burden {
            Burden::Bytes => Some(unload(&places.beside, self.amount(), concurrency).await?),
            _ => None,
        };
        let seconds = carried.seconds;
        carried.release().await?;
        places.remove().await?;
        let sizes = Sizes { burdened, drained, after_retention };
        let mut figures = self.figures(&turns, &sizes, unloaded.as_ref());
        figures["burden_seconds"] = round(seconds).into();
        figures["beside_housekeeping"] = housekeeping;
        figures["beside_housekeeping"]["percent_of_alone"] = percent_of_alone(&turns.alone, &housed).into();
        Ok(Finding::new("size", Settling::Pipelined, (self.settings(), figures)))
    }

    /// A round in one store, then one in the other: a machine that slows down slows both.
    async fn take_turns(&self, alone: &mut Busy<'_>, beside: &mut Busy<'_>, quiet: bool) -> Outcome<Turns> {
        let mut progress = Progress::new("rounds", u64::from(self.rounds), quiet);
        let mut turns = Turns { alone: Rounds::new(), beside: Rounds::new() };
        for done in 1..=self.rounds {
            alone.round(&mut turns.alone).await?;
            beside.round(&mut turns.beside).await?;
            progress.reach(done.into());
        }
        Ok(turns)
    }

    fn figures(&self, turns: &Turns, sizes: &Sizes, unloaded: Option<&Value>) -> Value {
        let Turns { alone, beside } = turns;
        let unloading = unloaded.and_then(|unloaded| unloaded["peak_memory_bytes"].as_u64());
        let memory = beside.peak_memory.max(unloading.unwrap_or(0));
        json!({
            "completed_per_second": beside.median(),
            "alone_per_second": alone.median(),
            "percent_of_alone": percent_of_alone(alone, beside),
            "percent_of_alone_best": round(beside.best() as f64 * 100.0 / alone.best().max(1) as f64),
            "cpu_seconds_per_million_jobs": beside.own_cpu(),
            "cpu_seconds_per_million_jobs_alone": alone.own_cpu(),
            "server_cpu_seconds_per_million_jobs": beside.server_cpu(),
            "server_cpu_seconds_per_million_jobs_alone": alone.server_cpu(),
            "rounds_beside": beside.rates,
            "rounds_alone": alone.rates,
            "draining": beside.draining.report(),
            "draining_alone": alone.draining.report(),
            "steady": beside.steady.report(),
            "steady_alone": alone.steady.report(),
            "promote": beside.draining.promotes.report(),
            "peak_memory_bytes": beside.peak_memory,
            "peak_memory_alone_bytes": alone.peak_memory,
            "burdened_bytes": sizes.burdened,
            "drained_bytes": sizes.drained,
            "after_retention_bytes": sizes.after_retention,
            "drain_of_burden": unloaded,
            "bars": bars(alone, beside, sizes, memory),
        })
    }

    fn amount(&self) -> u64 {
        self.amount.unwrap_or_else(|| self.burden.full())
    }

    fn settings(&self) -> Value {
        json!({
            "burden": self.burden,
            "amount": self.amount(),
            "jobs": self.jobs,
            "rounds": self.rounds,
            "concurrency": self.concurrency,
        })
    }
}
