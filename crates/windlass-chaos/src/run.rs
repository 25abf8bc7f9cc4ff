//! One run: its processes, the faults that hit them, and the end, when everything must drain.
//!
//! The phases are those of TigerBeetle's VOPR: warm, faults, heal, and then liveness: bounded time in
//! which everything that was acknowledged must end. What the run does is decided by its seed; how its
//! processes and the machine answer is not, so a replay repeats the faults, not every interleaving.

mod admission;
mod crew;
mod disk;
mod drain;
mod dump;
mod keys;
mod schedules;
mod starts;

use crate::{
    bug::{self, Bug},
    checker::{Report, Rules, check},
    database,
    history::{Fault, History, Phase, Recorder, What},
    starvation,
};
use anyhow::{Context as _, Result};
use crew::{Member, Todo};
use fastrand::Rng;
use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// The number of the process that injects faults and dumps the end.
const INJECTOR: u64 = 0;

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where its choices come from.
    pub seed: u64,
    /// Where its histories go; made when it does not exist.
    pub folder: PathBuf,
    /// The store as the injector reaches it.
    pub store: String,
    /// The store as the actors reach it: through a proxy or a pooler, perhaps.
    pub actors_store: String,
    /// The bug on trial.
    pub bug: Option<Bug>,
    /// Whether the store's schema is brought up to date first.
    pub migrates: bool,
}

/// A run under way.
pub struct Run {
    setup: Setup,
    /// Where the faults' choices come from.
    pub rng: Rng,
    /// What was promised; the checker reads it.
    pub rules: Rules,
    runtime: tokio::runtime::Runtime,
    recorder: Arc<Recorder>,
    members: Vec<Member>,
    next_number: u64,
    agenda: Vec<(Instant, Todo)>,
    /// Whether actors may die by themselves: poison jobs.
    pub poison: bool,
    /// What a run must say besides the checker's verdict.
    failures: Vec<String>,
}

impl Run {
    /// Makes the folder, migrates the store, plants the bug.
    ///
    /// # Errors
    /// When one of these does not work.
    pub fn open(setup: Setup) -> Result<Self> {
        fs::create_dir_all(&setup.folder)
            .with_context(|| format!("cannot make {}", setup.folder.display()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let recorder = Arc::new(Recorder::create(&setup.folder.join("injector.history"), INJECTOR)?);
        disk::watch(&setup.folder, &recorder)?;
        starvation::watch(&recorder, None);
        runtime.block_on(prepare(&setup))?;
        recorder.note(What::Phase { phase: Phase::Warm });
        Ok(Self {
            rng: Rng::with_seed(setup.seed),
            rules: Rules::default(),
            runtime,
            recorder,
            members: Vec::new(),
            next_number: INJECTOR + 1,
            agenda: Vec::new(),
            poison: false,
            failures: Vec::new(),
            setup,
        })
    }

    /// The store as the injector reaches it.
    pub fn store(&self) -> &str {
        &self.setup.store
    }

    /// Runs a future to its end, on the run's own threads.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// The next phase begins.
    pub fn phase(&self, phase: Phase) {
        self.recorder.note(What::Phase { phase });
    }

    /// A fault that hits everybody begins or ends. Note the begin before it can have an effect, and the
    /// end when it has none any more.
    pub fn fault(&mut self, fault: Fault, begins: bool) {
        self.recorder.note(What::Fault { fault, target: None, begins });
        if begins {
            self.rules.planned_faults += 1;
        }
    }

    /// Notes what the injector itself did as a producer.
    pub fn note_all(&self, all: impl IntoIterator<Item = What>) {
        self.recorder.note_all(all);
    }

    /// Something that must not be, besides the checker's invariants.
    pub fn fail(&mut self, text: String) {
        self.failures.push(text);
    }

    /// Ends the faults and producers, waits until everything drained, stops the workers, and checks.
    ///
    /// # Errors
    /// When the final dump or the histories cannot be read.
    pub fn conclude(mut self, patience: Duration) -> Result<Report> {
        self.finish_agenda();
        self.phase(Phase::Heal);
        self.dismiss_producers()?;
        self.revive_all()?;
        self.dismiss_keepers()?;
        if !self.rules.schedules.is_empty() {
            self.end_schedules(patience)?;
        }
        let mut drained = self.drain(patience)?;
        if drained && self.rules.unique_keys > 0 {
            self.phase(Phase::Drained);
            self.take_every_key()?;
            drained = self.drain(patience)?;
        }
        if drained && (self.rules.limit > 0 || self.rules.keys > 0) {
            self.fill_limits(patience)?;
            drained = self.drain(patience)?;
        }
        self.phase(if drained { Phase::Drained } else { Phase::Stuck });
        self.dismiss_workers()?;
        self.dismiss_listeners()?;
        if let Some(rate) = self.rules.rate {
            self.use_up(rate)?;
        }
        let records = self.runtime.block_on(dump::dump(&self.setup.store))?;
        for part in records.chunks(10_000) {
            self.recorder.note_all(part.iter().copied());
        }
        if !self.rules.schedules.is_empty() {
            self.note_decided()?;
        }
        self.phase(Phase::Dumped);
        fs::write(self.setup.folder.join("rules.json"), serde_json::to_vec_pretty(&self.rules)?)?;
        let history = History::read(&self.setup.folder)?;
        let mut report = check(&history, &self.rules);
        report.blame(std::mem::take(&mut self.failures));
        Ok(report)
    }
}

async fn prepare(setup: &Setup) -> Result<()> {
    let client = windlass::Client::connect(&setup.store).await?;
    if setup.migrates {
        client.migrate().await?;
    }
    client.close().await;
    if setup.store.starts_with("postgres") {
        let database = database::connect(&setup.store).await?;
        database.batch_execute("CREATE TABLE public.chaos_effect (job bigint NOT NULL)").await?;
        if let Some(bug) = setup.bug {
            bug::plant(bug, &database, "windlass").await?;
        }
    }
    Ok(())
}
