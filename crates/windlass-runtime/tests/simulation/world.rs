use crate::{
    check::SUSPECT,
    check_keys::KeyedJobs,
    dice::Dice,
    fake::FakeStore,
    faults::Trouble,
    handlers::{Act, Script, Wait},
    scenario::{AT_ONCE, QUEUES, RATE, SERIAL, Scenario},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    sync::Notify,
    time::{Duration, Instant},
};
use windlass_core::{
    Args, JobId, JobStore, KeyLimit, KeyLimitsChange, NewJob, QueueLimits, RateLimit, WorkerId,
};

/// Each takes several leases to be found out.
const MOST_KILLERS: usize = 2;

/// A job of a queue.
pub fn job(queue: &str, kind: &'static str) -> NewJob {
    NewJob::new(kind, Args::parse("{}").unwrap()).with_queue(queue.to_owned())
}

/// What all processes of a run share.
pub struct World {
    pub scenario: Scenario,
    pub store: FakeStore,
    pub trouble: Arc<Mutex<Trouble>>,
    clients: AtomicUsize,
    /// By job: what its handler does, and how often it ran to an end.
    scripts: Mutex<Vec<(Script, usize)>>,
    /// How many killers may come yet.
    killers: Mutex<usize>,
    /// The jobs that have a key.
    pub keyed: Mutex<KeyedJobs>,
    barriers: Mutex<BTreeMap<String, usize>>,
    /// The highest checkpoint of each job that its handler was told is kept.
    kept: Mutex<BTreeMap<JobId, u64>>,
    /// Which handlers of queue `a` run, under which registration.
    running: Mutex<BTreeSet<(WorkerId, JobId)>>,
    /// When which of its handlers began, and what their jobs cost.
    begun: Mutex<Vec<(Instant, u32)>>,
    arrived: Notify,
}

impl World {
    pub fn new(scenario: &Scenario) -> Arc<Self> {
        let store = FakeStore::new();
        {
            let mut model = store.lock();
            (model.leases_run_out, model.history.kept) = (true, true);
        }
        let trouble = Arc::new(Mutex::new(Trouble::new(scenario)));
        let (decides, seen) = (Arc::clone(&trouble), store.clone());
        store.plan_for(move |client, call, worker| {
            decides.lock().unwrap().decide(&seen, client, call, worker)
        });
        Arc::new(Self {
            scenario: scenario.clone(),
            store,
            trouble,
            clients: AtomicUsize::new(0),
            scripts: Mutex::default(),
            killers: Mutex::new(MOST_KILLERS),
            keyed: Mutex::default(),
            barriers: Mutex::default(),
            kept: Mutex::default(),
            running: Mutex::default(),
            begun: Mutex::default(),
            arrived: Notify::new(),
        })
    }

    /// Processes are numbered from 1; 0 is the test itself.
    pub fn next_client(&self) -> usize {
        self.clients.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Enqueues a job that was already held by so many workers that died.
    pub fn enqueue(&self, job: NewJob, crash_count: u16, script: Script) {
        self.scripts.lock().unwrap().push((script, 0));
        self.store.lock().enqueue(&[job], crash_count).unwrap();
    }

    /// Some random jobs.
    pub fn enqueue_some(&self, dice: &mut Dice, count: usize) {
        for _ in 0..count {
            let (kind, script) = self.scenario.job(dice, &mut self.killers.lock().unwrap());
            let workers = &self.scenario.workers;
            let queues = &workers[dice.number(0, workers.len() - 1)].config.queues;
            let queue = &queues[dice.number(0, queues.len() - 1)].queue;
            let delay = if dice.percent(15) { dice.millis(0, 5_000) } else { Duration::ZERO };
            let mut job = job(queue, kind).with_max_attempts(dice.number(1, 4) as u16).with_delay(delay);
            if self.scenario.limits.rate.is_some() {
                job = job.with_cost(dice.pick(&[1, 1, 1, 2, 3, 7, 12]));
            }
            let key = (self.scenario.keys && dice.percent(60)).then(|| dice.pick(&AT_ONCE).0);
            let job = match key {
                Some(key) => self.keyed(job, key, delay.is_zero()),
                None => job,
            };
            let crash_count = if dice.percent(self.scenario.suspect_percent) { SUSPECT } else { 0 };
            self.enqueue(job, crash_count, script);
        }
        if dice.percent(self.scenario.hint_percent) {
            self.store.announce();
        }
    }

    /// The next job has this key.
    fn keyed(&self, job: NewJob, key: &'static str, at_once: bool) -> NewJob {
        let (mut keyed, id) = (self.keyed.lock().unwrap(), self.scripts.lock().unwrap().len() as i64 + 1);
        keyed.places.insert(id, (job.queue().to_owned(), key));
        if at_once {
            keyed.at_once.insert(id);
        }
        job.with_key(key)
    }

    /// Limits the keys of every queue.
    pub fn limit_keys(&self) {
        let limit = |(key, most): (&str, u32)| {
            let limit =
                if key == SERIAL { KeyLimit::serial() } else { KeyLimit::default().with_concurrency(most) };
            let has_rate = key == RATE.0;
            let limit = if has_rate { limit.with_rate(RateLimit::new(RATE.1, RATE.2)) } else { limit };
            (key.to_owned(), Some(limit))
        };
        let named = KeyLimitsChange::Named(AT_ONCE.into_iter().map(limit).collect());
        let mut model = self.store.lock();
        model.keyed = true;
        for queue in QUEUES {
            model.run(async |store| store.limit_keys(queue, &named).await).0.unwrap();
        }
    }

    /// Pauses a queue, if there is one of that name yet.
    pub fn pause(&self, paused: bool) {
        let _ = self.store.lock().run(async |store| store.pause("a", paused).await);
    }

    /// What the next run of a job does.
    pub fn script(&self, job: JobId) -> (Wait, Act) {
        let scripts = self.scripts.lock().unwrap();
        let (script, runs) = &scripts[job.0 as usize - 1];
        let wait = match script.wait {
            Wait::Politely(time) | Wait::Stubbornly(time) if self.is_calm() => Wait::Sleep(time / 10),
            wait => wait,
        };
        (wait, script.acts[(*runs).min(script.acts.len() - 1)])
    }

    /// Whether the trouble is over: what is left shall not take long.
    fn is_calm(&self) -> bool {
        self.trouble.lock().unwrap().is_over
    }

    /// A run came to its end.
    pub fn ran(&self, job: JobId) {
        self.scripts.lock().unwrap()[job.0 as usize - 1].1 += 1;
    }

    /// The highest checkpoint that is kept for sure.
    pub fn kept(&self, job: JobId) -> u64 {
        self.kept.lock().unwrap().get(&job).copied().unwrap_or_default()
    }

    pub fn keep(&self, job: JobId, checkpoint: u64) {
        let mut kept = self.kept.lock().unwrap();
        let highest = kept.entry(job).or_default();
        *highest = checkpoint.max(*highest);
    }

    /// Limits how many jobs of queue `a` run, or no more.
    pub fn limit(&self, limits: &QueueLimits) {
        self.store.lock().run(async |store| store.limit("a", limits).await).0.unwrap();
    }

    /// A handler of queue `a` begins: with it no more run than may, of those whose lease stands, and no window has more starts.
    pub fn begins(&self, worker: WorkerId, job: JobId) {
        let mut running = self.running.lock().unwrap();
        running.insert((worker, job));
        let mut model = self.store.lock();
        running.retain(|(worker, _)| model.worker(*worker).is_some());
        if self.is_calm() {
            return;
        }
        let limits = &self.scenario.limits;
        let limit = limits.concurrency.map_or(usize::MAX, |limit| limit as usize);
        if running.len() > limit {
            model.violate(format!("job {job}: {} run at once, {limit} may: {running:?}", running.len()));
        }
        let record = model.job(job);
        // A suspect is counted before it waits until it is alone.
        if let Some(rate) = limits.rate.filter(|_| record.crash_count < SUSPECT)
            && let Err(what) = self.count_start(&rate, rate.cost(record.cost.unwrap_or(1)))
        {
            model.violate(format!("job {job}: {what}"));
        }
    }

    /// No window has more than its count, but for one that a job has for itself.
    fn count_start(&self, rate: &RateLimit, cost: u32) -> Result<(), String> {
        let (mut begun, now) = (self.begun.lock().unwrap(), Instant::now());
        begun.push((now, cost));
        for window in rate.windows() {
            let inside: Vec<_> = begun.iter().filter(|(at, _)| *at + window.length > now).collect();
            let sum: u32 = inside.iter().map(|(_, cost)| cost).sum();
            if sum > window.count && inside.len() > 1 {
                return Err(format!("{sum} in {window:?}: {inside:?}"));
            }
        }
        Ok(())
    }

    pub fn ends(&self, worker: WorkerId, job: JobId) {
        self.running.lock().unwrap().remove(&(worker, job));
    }

    /// Sets up a barrier for so many handlers of a queue.
    pub fn expect(&self, queue: &str, count: usize) {
        *self.barriers.lock().unwrap().entry(queue.to_owned()).or_default() += count;
    }

    /// Waits until all handlers that are expected are here.
    pub async fn barrier(&self, queue: &str) {
        if let Some(missing) = self.barriers.lock().unwrap().get_mut(queue) {
            *missing = missing.saturating_sub(1);
        }
        self.arrived.notify_waiters();
        while !self.is_open(queue) {
            let arrived = self.arrived.notified();
            if tokio::time::timeout(Duration::from_secs(60), arrived).await.is_err() {
                return;
            }
        }
    }

    pub fn is_open(&self, queue: &str) -> bool {
        self.barriers.lock().unwrap().get(queue).is_none_or(|missing| *missing == 0)
    }
}
