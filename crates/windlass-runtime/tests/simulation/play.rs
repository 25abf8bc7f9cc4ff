use crate::{
    check::check,
    check_keys,
    dice::Dice,
    fake::history::{Event, What},
    handlers::{Act, Script, Wait},
    nth_call,
    process::{Process, second_signal, stop},
    scenario::{PROBE, Scenario, Worker},
    world::{World, job},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use windlass_core::{JobId, QueueLimits};
use windlass_runtime::EngineHandle;

/// How long everything may take to get done once the trouble is over: a job that kills its workers takes a
/// lease each time.
const DRAIN: Duration = Duration::from_secs(480);
/// How long it may take until every slot has a job.
const PROBE_WAIT: Duration = Duration::from_secs(30);

/// No run takes nearly as long; in one that does, somebody waits for ever.
const LONGEST_RUN: Duration = Duration::from_secs(3_600);

/// A run that is over.
pub struct Played {
    pub scenario: Scenario,
    pub events: Vec<Event>,
    pub violations: Vec<String>,
    /// Store calls while there was trouble.
    pub calls_in_trouble: usize,
}

/// Plays one scenario from beginning to end.
pub fn play(scenario: &Scenario) -> Played {
    // For the jitter of engines and the tokens of claims.
    fastrand::seed(scenario.seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let world = runtime.as_ref().unwrap().block_on(async {
        let world = World::new(scenario);
        if timeout(LONGEST_RUN, Cast::new(&world).perform()).await.is_err() {
            world.store.lock().violate("the run does not come to its end".to_owned());
        }
        world
    });
    drop(runtime);
    let mut model = world.store.lock();
    let (events, mut violations) = (std::mem::take(&mut model.history.events), model.violations.clone());
    violations.extend(check(&events));
    violations.extend(check_keys::check(&events, &world.keyed.lock().unwrap()));
    let calls_in_trouble = world.trouble.lock().unwrap().calls_in_trouble;
    Played { scenario: scenario.clone(), events, violations, calls_in_trouble }
}

/// The workers of a run, and what happens to them.
struct Cast {
    world: Arc<World>,
    dice: Dice,
    slots: Vec<Slot>,
    stopping: JoinSet<()>,
}

/// Where one process after another has its place.
struct Slot {
    worker: Worker,
    occupant: Option<(Arc<Process>, EngineHandle)>,
}

impl Cast {
    fn new(world: &Arc<World>) -> Self {
        let slot = |worker: &Worker| Slot { worker: worker.clone(), occupant: None };
        Self {
            world: Arc::clone(world),
            dice: Dice::new(world.scenario.seed ^ 0xca57),
            slots: world.scenario.workers.iter().map(slot).collect(),
            stopping: JoinSet::new(),
        }
    }

    async fn perform(&mut self) {
        if !self.world.scenario.limits.is_none() {
            self.world.limit(&self.world.scenario.limits);
        }
        if self.world.scenario.keys {
            self.world.limit_keys();
        }
        self.fill_slots().await;
        self.go_through_trouble().await;
        self.heal().await;
        if !self.drain().await {
            return self.complain("not everything gets done");
        }
        self.probe().await;
        self.stop_all().await;
    }

    fn complain(&self, words: &str) {
        let mut model = self.world.store.lock();
        let open = (1..=model.total() as i64).find(|id| !model.job(JobId(*id)).state.is_final());
        let open = open.map_or(String::new(), |id| format!("job {id}: "));
        model.violate(format!("{open}{words}"));
    }

    /// Starts a process in every free place.
    async fn fill_slots(&mut self) {
        for slot in &mut self.slots {
            if slot.occupant.as_ref().is_some_and(|(process, _)| process.is_dead()) {
                slot.occupant = None;
            }
            if slot.occupant.is_none() {
                slot.occupant = Process::start(&self.world, &slot.worker).await;
            }
        }
    }

    async fn go_through_trouble(&mut self) {
        let (until, scenario) = (Instant::now() + self.world.scenario.trouble, self.world.scenario.clone());
        if scenario.is_scripted() {
            nth_call::enqueue(&self.world);
            // The one call that fails may be the first.
            self.fill_slots().await;
            sleep(scenario.trouble / 2).await;
            self.leave(0, None);
            return sleep(scenario.trouble / 2).await;
        }
        while Instant::now() < until {
            let most = if self.dice.percent(20) { 25 } else { 4 };
            let count = self.dice.number(0, most);
            self.world.enqueue_some(&mut self.dice, count);
            if self.dice.percent(scenario.event_percent) {
                self.happen();
            }
            sleep(self.dice.millis(0, 600)).await;
            if self.dice.percent(40) {
                self.fill_slots().await;
            }
        }
    }

    /// Something happens to a process or to the store.
    fn happen(&mut self) {
        let at = self.dice.number(0, self.slots.len() - 1);
        let long = self.dice.millis(0, 15_000);
        let quiet = self.world.scenario.fault_percent == 0;
        match self.dice.number(0, 9) {
            0 | 1 => {
                if let Some((process, _)) = &self.slots[at].occupant {
                    process.kill();
                }
            }
            2..=4 => {
                let second = second_signal(&mut self.dice);
                self.leave(at, second);
            }
            5 | 6 if !quiet => self.cut_off(at, long),
            7 if !quiet => {
                let until = Instant::now() + long;
                self.world.trouble.lock().unwrap().go_down(until);
            }
            8 => self.world.pause(true),
            9 => self.world.pause(false),
            _ => self.by_hand(),
        }
    }

    /// An operator cancels or retries a few jobs.
    fn by_hand(&mut self) {
        let mut model = self.world.store.lock();
        for _ in 0..model.total().min(5) {
            let id = [JobId(self.dice.number(1, model.total()) as i64)];
            match self.dice.percent(50) {
                true => drop(model.cancel(&id).unwrap()),
                false => drop(model.retry(&id).unwrap()),
            }
        }
    }

    fn cut_off(&self, at: usize, long: Duration) {
        if let Some((process, _)) = &self.slots[at].occupant {
            process.store.cut_off(process.client(), Instant::now() + long);
            let until = process.store.lock().history.now() + long;
            process.note(What::Fault { call: crate::fake::Call::Upkeep, until });
        }
    }

    /// The process at this place shuts down.
    fn leave(&mut self, at: usize, second_signal: Option<Duration>) {
        if let Some((process, engine)) = self.slots[at].occupant.take() {
            self.stopping.spawn(stop(process, engine, second_signal));
        }
    }

    /// The trouble ends.
    async fn heal(&mut self) {
        self.world.trouble.lock().unwrap().end();
        self.world.pause(false);
        if !self.world.scenario.limits.is_none() {
            self.world.limit(&QueueLimits::default());
        }
        for slot in &mut self.slots {
            slot.worker.knows_rare = true;
            if let Some((process, _)) = &slot.occupant {
                process.store.cut_off(process.client(), Instant::now());
            }
        }
        // Somebody has to know every kind, in every queue.
        for at in 0..self.slots.len() {
            let knows = |(process, _): &(Arc<Process>, _)| process.worker.knows_rare;
            if !self.slots[at].occupant.as_ref().is_some_and(knows) {
                self.leave(at, None);
            }
        }
        self.fill_slots().await;
    }

    async fn drain(&mut self) -> bool {
        let until = Instant::now() + DRAIN;
        while Instant::now() < until {
            if self.world.store.lock().all_final() {
                return true;
            }
            sleep(Duration::from_millis(200)).await;
            self.fill_slots().await;
        }
        false
    }

    /// Shows that every slot of every worker can have a job at the same time.
    async fn probe(&mut self) {
        while self.stopping.join_next().await.is_some() {}
        // The last call that hangs is over, and whatever was fast is forgotten: nobody claims more than it has
        // slots.
        let over = self.world.trouble.lock().unwrap().lasts_until;
        sleep_until(over.max(Instant::now()) + Duration::from_secs(5)).await;
        let mut slots: BTreeMap<String, usize> = BTreeMap::new();
        for slot in &self.slots {
            for queue in &slot.worker.config.queues {
                *slots.entry(queue.queue.clone()).or_default() += queue.concurrency;
            }
        }
        for (queue, count) in &slots {
            self.world.expect(queue, *count);
            for _ in 0..*count {
                let script = Script { wait: Wait::Barrier, acts: vec![Act::Complete] };
                self.world.enqueue(job(queue, PROBE).with_max_attempts(1), 0, script);
            }
        }
        let until = Instant::now() + PROBE_WAIT;
        while !slots.keys().all(|queue| self.world.is_open(queue)) {
            if Instant::now() > until {
                return self.complain("not every slot takes a job: one has leaked");
            }
            sleep(Duration::from_millis(200)).await;
        }
        if !self.drain().await {
            self.complain("the probes do not get done");
        }
    }

    async fn stop_all(&mut self) {
        for at in 0..self.slots.len() {
            self.leave(at, None);
        }
        while self.stopping.join_next().await.is_some() {}
    }
}
