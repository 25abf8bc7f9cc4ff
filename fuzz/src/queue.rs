//! A small correct queue, whose every step follows from the bytes of an input, and the history it writes.

use windlass_chaos::history::{Event, Fate, Fault, History, Outcome, Phase, Recorded, What};
use windlass_core::JobState;

/// How many handlers a worker's process runs at once.
const SLOTS: i64 = 2;
/// A job that so many dying workers held is discarded.
const MAX_CRASHES: u16 = 3;
/// Without a suspect a crash count goes no higher.
const TOGETHER: u16 = 2;
/// The most steps of a run.
const MAX_STEPS: usize = 400;

/// Decisions, read from an input; zeros when it is used up.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % end.max(1)
    }

    /// One of `all`.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len())])
    }
}

struct Job {
    id: i64,
    key: i64,
    /// Whether the store has it.
    stored: bool,
    end: Option<JobState>,
    holder: Option<usize>,
    attempt: u16,
    crashes: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Running,
    Paused,
    Gone,
}

struct Worker {
    process: u32,
    id: i32,
    health: Health,
    rescued: bool,
    suspect: Option<i64>,
}

struct Hold {
    job: usize,
    worker: usize,
    seq: i64,
    attempt: u16,
    started: bool,
    finished: Option<Outcome>,
    /// Settled without the worker knowing.
    applied: bool,
    /// Answered for good, or its worker is gone.
    closed: bool,
    /// The answer to the claim is on its way, and its worker will note this.
    unheard: Option<What>,
}

/// The store, its workers and what they note.
struct Queue {
    at: u64,
    history: History,
    jobs: Vec<Job>,
    workers: Vec<Worker>,
    holds: Vec<Hold>,
    calls: i64,
}

/// The producer's process, and the one that injects faults and rescues.
const PRODUCER: u32 = 0;
const INJECTOR: u32 = 1;

/// A whole run: work and faults as the bytes say, then everything drains.
pub fn run(choices: &mut Choices<'_>) -> History {
    let mut queue = Queue {
        at: 1_000_000_000,
        history: History::default(),
        jobs: Vec::new(),
        workers: Vec::new(),
        holds: Vec::new(),
        calls: 0,
    };
    queue.history.processes = vec![(0, "load".to_owned()), (1, "faults".to_owned())];
    queue.phase(Phase::Warm);
    queue.register();
    queue.register();
    queue.enqueue(7);
    queue.phase(Phase::Faults);
    for _ in 0..MAX_STEPS {
        if choices.is_empty() {
            break;
        }
        queue.step(choices);
    }
    queue.drain();
    queue.history
}

impl Queue {
    fn note(&mut self, process: u32, what: What) {
        self.at += 1_000_000;
        self.history.events.push(Recorded { process, event: Event { at: self.at, what } });
    }

    fn phase(&mut self, phase: Phase) {
        self.note(INJECTOR, What::Phase { phase });
    }

    fn fault(&mut self, fault: Fault, target: Option<i64>, begins: bool) {
        self.note(INJECTOR, What::Fault { fault, target, begins });
    }

    fn number(&self, worker: usize) -> i64 {
        self.history.processes[self.workers[worker].process as usize].0
    }

    fn register(&mut self) {
        let process = self.history.processes.len() as u32;
        self.history.processes.push((100 + i64::from(process), format!("worker-{process}")));
        let id = 10 + self.workers.len() as i32;
        self.workers.push(Worker { process, id, health: Health::Running, rescued: false, suspect: None });
        self.note(process, What::Registered { worker: id, slots: SLOTS, lease_ns: 1_000_000_000 });
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let running = self.having(Health::Running);
        let fresh: Vec<usize> =
            running.iter().copied().filter(|worker| !self.workers[*worker].rescued).collect();
        match choices.below(23) {
            0..=3 => {
                let way = choices.below(10);
                self.enqueue(way);
            }
            4..=8 => {
                if let (Some(worker), Some(job)) = (choices.pick(&fresh), choices.pick(&self.available())) {
                    self.claim(worker, job, choices.below(12) == 1);
                }
            }
            9..=11 => {
                if let Some(hold) = choices.pick(&self.startable()) {
                    self.start(hold, choices.below(4) == 1);
                }
            }
            12..=15 => {
                if let Some(hold) = choices.pick(&self.busy()) {
                    match self.holds[hold].finished {
                        None => self.finish(hold, OUTCOMES[choices.below(OUTCOMES.len())]),
                        Some(_) => self.settle(hold, choices.below(6)),
                    }
                }
            }
            16 => choices.pick(&running).into_iter().for_each(|worker| self.kill(worker)),
            17 => self.rescue(choices),
            18 => match choices.pick(&self.having(Health::Paused)) {
                Some(worker) if choices.below(2) == 0 => self.resume(worker),
                _ => choices.pick(&running).into_iter().for_each(|worker| self.pause(worker)),
            },
            19 => choices.pick(&running).into_iter().for_each(|worker| self.deregister(worker)),
            20 => self.by_hand(choices),
            21 => choices.pick(&self.unheard()).into_iter().for_each(|hold| self.hear(hold)),
            _ => self.crash_database(choices),
        }
    }

    fn having(&self, health: Health) -> Vec<usize> {
        (0..self.workers.len()).filter(|worker| self.workers[*worker].health == health).collect()
    }

    fn available(&self) -> Vec<usize> {
        let free = |job: &Job| job.stored && job.end.is_none() && job.holder.is_none();
        (0..self.jobs.len()).filter(|job| free(&self.jobs[*job])).collect()
    }

    fn open(&self, wanted: impl Fn(&Hold) -> bool) -> Vec<usize> {
        let runs = |hold: &Hold| self.workers[hold.worker].health == Health::Running;
        let all = 0..self.holds.len();
        all.filter(|hold| {
            let hold = &self.holds[*hold];
            !hold.closed && hold.unheard.is_none() && runs(hold) && wanted(hold)
        })
        .collect()
    }

    fn startable(&self) -> Vec<usize> {
        self.open(|hold| {
            let beside = self.holds.iter().filter(|other| {
                other.worker == hold.worker && other.started && other.finished.is_none() && !other.closed
            });
            !hold.started && beside.count() < SLOTS as usize
        })
    }

    fn busy(&self) -> Vec<usize> {
        self.open(|hold| hold.started)
    }

    /// In each of the ways an enqueue can end; 4 and above: as it should.
    fn enqueue(&mut self, way: usize) {
        let (id, key) = (1_000 + self.jobs.len() as i64, 1 + self.jobs.len() as i64);
        self.note(PRODUCER, What::EnqueueSent { key });
        self.note(
            PRODUCER,
            match way {
                0 => What::EnqueueFailed { key },
                1 | 2 => What::EnqueueUnknown { key },
                3 => What::RolledBack { key, id },
                _ => What::EnqueueAcked { key, id },
            },
        );
        let stored = way == 1 || way > 3;
        self.jobs.push(Job { id, key, stored, end: None, holder: None, attempt: 1, crashes: 0 });
    }

    /// `unheard`: the process is killed before it knows of the claim.
    fn claim(&mut self, worker: usize, job: usize, unheard: bool) {
        let (seq, attempt) = (1 + self.holds.len() as i64, self.jobs[job].attempt);
        let Worker { process, id: by, .. } = self.workers[worker];
        self.jobs[job].holder = Some(self.holds.len());
        self.holds.push(Hold {
            job,
            worker,
            seq,
            attempt,
            started: false,
            finished: None,
            applied: false,
            closed: false,
            unheard: None,
        });
        if unheard {
            return self.kill(worker);
        }
        let Job { id, crashes, .. } = self.jobs[job];
        let sent = self.at + 500_000;
        self.note(process, What::Claimed { worker: by, id, lane: 1, seq, attempt, crashes, sent });
    }

    fn start(&mut self, hold: usize, suspect: bool) {
        let Hold { job, worker, seq, attempt, .. } = self.holds[hold];
        let Job { id, key, .. } = self.jobs[job];
        let Worker { process, id: by, rescued, .. } = self.workers[worker];
        if suspect && !rescued {
            self.workers[worker].suspect = Some(id);
            self.note(process, What::Suspected { worker: by, id: Some(id) });
        }
        self.holds[hold].started = true;
        self.note(process, What::Started { worker: by, id, seq, key, attempt });
    }

    fn finish(&mut self, hold: usize, outcome: Outcome) {
        let Hold { job, worker, seq, .. } = self.holds[hold];
        let id = self.jobs[job].id;
        let Worker { process, id: by, suspect, .. } = self.workers[worker];
        self.holds[hold].finished = Some(outcome);
        self.note(process, What::Finished { worker: by, id, seq, outcome });
        if suspect == Some(id) {
            self.workers[worker].suspect = None;
            self.note(process, What::Suspected { worker: by, id: None });
        }
    }

    /// Way 1: it happened and the reply was lost; 2: it did not happen, and nobody knows.
    fn settle(&mut self, hold: usize, way: usize) {
        let Hold { job, worker, seq, finished, applied, .. } = self.holds[hold];
        let outcome = finished.expect("only finished ones are settled");
        let Worker { process, id: by, rescued, .. } = self.workers[worker];
        let sent = self.at + 500_000;
        let lives = self.jobs[job].holder == Some(hold);
        let fate = match way {
            1 | 2 => Fate::Unknown,
            _ if applied && !rescued => Fate::Already,
            _ if lives => Fate::Accepted,
            _ => Fate::Refused,
        };
        if lives && way != 2 {
            self.apply(hold, outcome);
        }
        self.holds[hold].closed = fate != Fate::Unknown;
        let id = self.jobs[job].id;
        self.note(process, What::Settled { worker: by, id, seq, fate, outcome, sent });
    }

    fn apply(&mut self, hold: usize, outcome: Outcome) {
        self.holds[hold].applied = true;
        let job = &mut self.jobs[self.holds[hold].job];
        job.holder = None;
        match outcome {
            Outcome::Complete => job.end = Some(JobState::Completed),
            Outcome::Cancel => job.end = Some(JobState::Cancelled),
            Outcome::Discard => job.end = Some(JobState::Discarded),
            Outcome::Retry => job.attempt += 1,
            _ => {}
        }
    }

    fn kill(&mut self, worker: usize) {
        self.fault(Fault::Kill, Some(self.number(worker)), true);
        self.leave(worker);
    }

    /// The process is gone; another takes its place.
    fn leave(&mut self, worker: usize) {
        self.workers[worker].health = Health::Gone;
        self.holds.iter_mut().filter(|hold| hold.worker == worker).for_each(|hold| hold.closed = true);
        self.register();
    }

    fn pause(&mut self, worker: usize) {
        self.fault(Fault::Pause, Some(self.number(worker)), true);
        self.workers[worker].health = Health::Paused;
        self.register();
    }

    fn resume(&mut self, worker: usize) {
        self.fault(Fault::Pause, Some(self.number(worker)), false);
        let Worker { process, id, rescued, .. } = self.workers[worker];
        self.workers[worker].health = Health::Running;
        if rescued {
            self.note(process, What::LeaseLost { worker: id });
        }
    }

    /// A graceful end: started handlers are interrupted, and everything goes back as it was.
    fn deregister(&mut self, worker: usize) {
        if self.workers[worker].rescued {
            return;
        }
        self.fault(Fault::Terminate, Some(self.number(worker)), true);
        let mine = |hold: &usize| self.holds[*hold].worker == worker && !self.holds[*hold].closed;
        let mine: Vec<usize> = (0..self.holds.len()).filter(mine).collect();
        for hold in &mine {
            if self.holds[*hold].started && self.holds[*hold].finished.is_none() {
                self.finish(*hold, Outcome::Interrupted);
            }
        }
        let Worker { process, id, .. } = self.workers[worker];
        self.note(process, What::DeregisterSent { worker: id });
        for hold in mine {
            let job = &mut self.jobs[self.holds[hold].job];
            if job.holder == Some(hold) {
                job.holder = None;
            }
        }
        self.workers[worker].rescued = true; // nothing of it is left to rescue
        self.leave(worker);
    }

    /// Declares workers dead that do not answer, and takes their jobs.
    fn rescue(&mut self, choices: &mut Choices<'_>) {
        self.calls += 1;
        let call = self.calls;
        let process =
            choices.pick(&self.having(Health::Running)).map_or(INJECTOR, |w| self.workers[w].process);
        self.note(process, What::RescueSent { call });
        for worker in 0..self.workers.len() {
            if self.workers[worker].health == Health::Running || self.workers[worker].rescued {
                continue;
            }
            self.workers[worker].rescued = true;
            for hold in 0..self.holds.len() {
                if self.holds[hold].worker == worker && self.jobs[self.holds[hold].job].holder == Some(hold) {
                    self.take_back(hold);
                }
            }
            self.note(process, What::Rescued { call, worker: self.workers[worker].id });
        }
        self.note(process, What::RescueDone { call });
    }

    fn take_back(&mut self, hold: usize) {
        let Hold { job, worker, .. } = self.holds[hold];
        let suspect = self.workers[worker].suspect;
        let job = &mut self.jobs[job];
        job.holder = None;
        match suspect {
            Some(id) if id == job.id => job.crashes += 1,
            Some(_) => {}
            None => job.crashes = (job.crashes + 1).min(job.crashes.max(TOGETHER)),
        }
        if job.crashes >= MAX_CRASHES {
            job.end = Some(JobState::Discarded);
        }
    }

    /// Somebody cancels a job that waits, or retries one that is dead.
    fn by_hand(&mut self, choices: &mut Choices<'_>) {
        let dead = |job: &Job| matches!(job.end, Some(JobState::Cancelled | JobState::Discarded));
        let dead: Vec<usize> = (0..self.jobs.len()).filter(|job| dead(&self.jobs[*job])).collect();
        if let (Some(job), 0) = (choices.pick(&dead), choices.below(2)) {
            let id = self.jobs[job].id;
            self.note(INJECTOR, What::RetryAsked { id, done: false });
            let job = &mut self.jobs[job];
            (job.end, job.attempt, job.crashes) = (None, 1, 0);
            self.note(INJECTOR, What::RetryAsked { id, done: true });
        } else if let Some(job) = choices.pick(&self.available()) {
            let id = self.jobs[job].id;
            self.note(INJECTOR, What::CancelAsked { id, done: false });
            self.jobs[job].end = Some(JobState::Cancelled);
            self.note(INJECTOR, What::CancelAsked { id, done: true });
        }
    }

    /// The database comes back, perhaps without the last claim: claims commit asynchronously. Its answer may reach
    /// the worker long after that.
    fn crash_database(&mut self, choices: &mut Choices<'_>) {
        self.fault(Fault::DatabaseCrash, None, true);
        if let (Some(hold), 1) = (self.holds.last(), choices.below(2))
            && self.jobs[hold.job].holder == Some(self.holds.len() - 1)
        {
            self.jobs[hold.job].holder = None;
            let (last, seq) = (self.holds.len() - 1, hold.seq);
            let noted =
                |noted: &Recorded| matches!(noted.event.what, What::Claimed { seq: its, .. } if its == seq);
            if !hold.started && !hold.closed && choices.below(2) == 1 {
                let at =
                    self.history.events.iter().rposition(noted).expect("whoever may start noted its claim");
                self.holds[last].unheard = Some(self.history.events.remove(at).event.what);
            }
        }
        self.fault(Fault::DatabaseCrash, None, false);
    }

    fn unheard(&self) -> Vec<usize> {
        let waits = |hold: &Hold| {
            hold.unheard.is_some() && !hold.closed && self.workers[hold.worker].health == Health::Running
        };
        (0..self.holds.len()).filter(|hold| waits(&self.holds[*hold])).collect()
    }

    fn hear(&mut self, hold: usize) {
        if let Some(claimed) = self.holds[hold].unheard.take() {
            self.note(self.workers[self.holds[hold].worker].process, claimed);
        }
    }

    fn drain(&mut self) {
        self.having(Health::Paused).into_iter().for_each(|worker| self.resume(worker));
        self.phase(Phase::Heal);
        self.rescue(&mut Choices::new(&[]));
        self.unheard().into_iter().for_each(|hold| self.hear(hold));
        loop {
            let (open, available) = (self.open(|_| true), self.available());
            match (open.first(), available.first()) {
                (Some(hold), _) => self.end(*hold),
                (None, Some(job)) => {
                    let worker = self.workers.iter().rposition(|w| w.health == Health::Running && !w.rescued);
                    match worker {
                        Some(worker) => self.claim(worker, *job, false),
                        None => self.register(),
                    }
                }
                (None, None) => break,
            }
        }
        self.phase(Phase::Drained);
        for job in 0..self.jobs.len() {
            let Job { id, key, stored, end, attempt, crashes, .. } = self.jobs[job];
            if stored {
                let state = end.expect("everything drained");
                self.note(INJECTOR, What::Stored { id, key, state, attempt, crashes });
            }
        }
        self.phase(Phase::Dumped);
    }

    /// Works a hold to its end. Those that wait for a slot come after those that have one.
    fn end(&mut self, hold: usize) {
        let hold = self.busy().first().copied().unwrap_or(hold);
        if !self.holds[hold].started {
            self.start(hold, false);
        }
        if self.holds[hold].finished.is_none() {
            self.finish(hold, Outcome::Complete);
        }
        self.settle(hold, 0);
    }
}

const OUTCOMES: [Outcome; 8] = [
    Outcome::Complete,
    Outcome::Complete,
    Outcome::Complete,
    Outcome::Retry,
    Outcome::Retry,
    Outcome::Snooze,
    Outcome::Discard,
    Outcome::Cancel,
];
