//! The scenarios: what is done to a store, and what must hold.

mod changes;
mod deaths;
mod endurance;
mod events;
mod faults;
mod ground;
mod keys;
mod limits;
mod mixed;
mod outages;
mod restore;
mod schedules;
mod storm;
mod sweeps;
mod unique;
mod unreachable;
mod waits;

use crate::{bug::Bug, checker::Report};
use anyhow::Result;
use std::{path::PathBuf, time::Duration};

/// Where a scenario's jobs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// A PostgreSQL cluster of the run's own.
    Postgres,
    /// A SQLite file.
    Sqlite,
}

/// One run of a scenario.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Where the choices come from.
    pub seed: u64,
    /// The full length; otherwise a short slice.
    pub full: bool,
    /// The store.
    pub store: Store,
    /// How many seconds the faults go on, for those that say so; otherwise what their length says.
    pub seconds: Option<u64>,
    /// The bug on trial.
    pub bug: Option<Bug>,
    /// Where its histories go.
    pub folder: PathBuf,
    /// Workers of other languages: commands of the shell.
    pub actors: Vec<String>,
}

/// What came of it.
#[derive(Debug)]
pub enum Ended {
    /// It ran; measurements besides the checker's, in words.
    Ran(Box<Report>, Vec<String>),
    /// It cannot run here, and why.
    Skipped(String),
}

/// Something that is done to a store.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The stores that it is for.
    pub stores: &'static [Store],
    /// Whether nothing may run beside it, because it measures or needs its processors.
    pub alone: bool,
    /// How many runs with different seeds the full suite makes.
    pub repeats: u64,
    /// Does it.
    pub run: fn(&Trial) -> Result<Ended>,
}

const BOTH: &[Store] = &[Store::Postgres, Store::Sqlite];
const POSTGRES: &[Store] = &[Store::Postgres];

/// How long everything may take to drain: leases, rescues, retries, and the backlog of a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

macro_rules! scenarios {
    ($($name:literal $stores:ident alone=$alone:literal x $repeats:literal $run:path: $about:literal;)+) => {
        /// Every scenario, in the order that they run.
        pub const ALL: &[Scenario] = &[
            $(Scenario { name: $name, about: $about, stores: $stores, alone: $alone, repeats: $repeats, run: $run }),+
        ];
    };
}

scenarios! {
    "storm" BOTH alone=false x 8 storm::run: "kills, pauses, shutdowns, cut commits and a crash, all at once";
    "mixed" BOTH alone=false x 8 mixed::run: "a storm over workers of several languages, by --actor, beside those in Rust";
    "unique" BOTH alone=false x 8 unique::run: "a storm while producers race for unique keys: never two jobs of one";
    "sweeps" BOTH alone=false x 8 sweeps::run: "jobs are cancelled, edited and deleted by filter while workers drain and die";
    "limits" BOTH alone=false x 2 limits::run: "a storm beside a limit: no instant has more running jobs, and no slot leaks";
    "rates" BOTH alone=false x 2 limits::run_rates: "a storm beside a rate: no window of time has more starts, and no start leaks";
    "keys" BOTH alone=false x 2 keys::run: "a storm beside limits of keys: none is exceeded, serial ones keep their order";
    "serial" BOTH alone=false x 1 keys::run_serial: "a storm beside many serial keys: the jobs of each run one after the other, in order";
    "backlog" POSTGRES alone=false x 2 keys::run_backlog: "a storm beside a key with nearly all jobs, ahead of which others are found: none is lost or doubled";
    "waits" BOTH alone=false x 2 waits::run: "a storm while somebody waits for jobs, some of which expire: told how each ended, and none runs late";
    "events" BOTH alone=false x 8 events::run: "a storm while somebody reads what happens: each thing once, in order, from a kept cursor";
    "schedules" BOTH alone=false x 1 schedules::run: "leaders die by the dozen, several at once believe that they lead: each tick fires once";
    "kills" BOTH alone=false x 1 deaths::kills: "SIGKILL of workers and producers: nothing acknowledged is lost";
    "pauses" BOTH alone=false x 1 deaths::pauses: "SIGSTOP past the lease: what the sleeper says then is refused";
    "terminations" BOTH alone=false x 1 deaths::terminations: "rolling SIGTERMs, a second one now and then";
    "poison" BOTH alone=false x 1 deaths::poison: "jobs that abort their worker or eat its memory are found out";
    "long_jobs" BOTH alone=true x 1 deaths::long_jobs: "jobs longer than the lease start once";
    "crashes" POSTGRES alone=false x 1 outages::crashes: "database crashes: nothing lost, throughput back in 10 s";
    "network" POSTGRES alone=false x 1 outages::network: "connections cut, swallowed, slowed, terminated, exhausted";
    "outage" POSTGRES alone=false x 1 unreachable::outage: "away for longer than the lease: who lived keeps its jobs";
    "half_open" POSTGRES alone=false x 1 outages::half_open: "connections die without a word: noticed in 10 s";
    "commits" POSTGRES alone=false x 1 outages::commits: "cuts around COMMIT: none lost, none doubled under a key";
    "deaf" POSTGRES alone=false x 1 outages::deaf: "notifications vanish: polling finds the work";
    "disk_full" POSTGRES alone=false x 1 outages::disk_full: "the disk fills up and is freed";
    "failover_sync" POSTGRES alone=false x 20 changes::failover_sync: "a synchronous standby takes over: nothing lost";
    "failover_async" POSTGRES alone=false x 20 changes::failover_async: "an asynchronous one: only what was not streamed";
    "restore" POSTGRES alone=false x 20 restore::under_load: "dumped under load, restored elsewhere: only what came later is lost";
    "restore_quiet" POSTGRES alone=false x 20 restore::quiet: "dumped while nobody writes: nothing is lost or done twice";
    "pooler" POSTGRES alone=false x 1 changes::pooler: "through PgBouncer in transaction mode, restarted";
    "worker_clocks" POSTGRES alone=false x 1 changes::worker_clocks: "the clocks of workers jump: nothing happens";
    "server_clock" POSTGRES alone=false x 1 changes::server_clock: "the clock of the database jumps: nothing is lost";
    "versions" POSTGRES alone=false x 1 changes::versions: "the schema is migrated while everybody works";
    "snapshot" POSTGRES alone=true x 1 endurance::snapshot: "a held snapshot costs at most 5 %";
    "soak" BOTH alone=false x 1 endurance::soak: "memory does not grow";
}

/// The scenario of this name.
pub fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

impl Ended {
    fn ran(report: Report) -> Self {
        Self::Ran(Box::new(report), Vec::new())
    }
}

impl Trial {
    /// The full figure or the short one.
    fn scaled<T>(&self, full: T, short: T) -> T {
        if self.full { full } else { short }
    }
}
