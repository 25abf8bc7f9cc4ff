use crate::history::{Event, Fate, History, Outcome, Phase, What};
use std::collections::{BTreeMap, HashMap};
use windlass_core::JobState;

/// An asynchronous standby on the same machine is never further behind than this.
const TAIL_NS: u64 = 5_000_000_000;

/// One lease on one job: from the claim that handed it out to whatever ended it.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    /// The number of the process.
    pub(super) process: i64,
    pub(super) worker: i32,
    pub(super) lane: i32,
    pub(super) seq: i64,
    pub(super) attempt: u16,
    pub(super) crashes: u16,
    /// When the call that handed it out was sent.
    pub(super) sent: u64,
    /// When its answer was noted.
    pub(super) claimed: u64,
    pub(super) started: Option<u64>,
    /// The key that its handler read from the args.
    pub(super) ran: Option<i64>,
    pub(super) finished: Option<(u64, Outcome)>,
    /// How its process was about to give it back, without having run it.
    pub(super) given_back: Option<Outcome>,
    /// The checkpoint that its handler was given.
    pub(super) resumed: Option<u32>,
    /// Checkpoints that its handler was about to keep, or that it was told are kept (true), and when.
    pub(super) checkpoints: Vec<(u32, bool, u64)>,
    /// When its handler was about to commit the completion in a transaction of its own: its claim may be over from then on.
    pub(super) effect_sent: Option<u64>,
    /// Answers to its settlements: fate, what they said, when they were sent, when answered.
    pub(super) answers: Vec<(Fate, Outcome, u64, u64)>,
}

impl Hold {
    /// How the store says it was settled, by this call or an earlier one.
    pub(super) fn settled(&self) -> Option<Outcome> {
        let settles = |fate: Fate| matches!(fate, Fate::Accepted | Fate::Already);
        self.answers.iter().find(|(fate, ..)| settles(*fate)).map(|(_, outcome, ..)| *outcome)
    }

    /// How the store says that it ended the job. That it was settled already does not say how where the handler's
    /// own commit may have completed it: whoever lost the answer to that commit settles it as failed, or as cancelled.
    pub(super) fn ended(&self) -> Option<JobState> {
        let accepted = self.answers.iter().any(|(fate, ..)| *fate == Fate::Accepted);
        self.settled().filter(|_| accepted || self.effect_sent.is_none()).and_then(Outcome::final_state)
    }

    /// Whether its handler's end was answered, and only ever with a refusal.
    pub(super) fn refused(&self) -> bool {
        !self.answers.is_empty() && self.answers.iter().all(|(fate, ..)| *fate == Fate::Refused)
    }

    /// How it may have been settled without anybody knowing: a lost reply, or a process that died between
    /// the handler's end, or its giving the job back, and the answer.
    pub(super) fn maybe_settled(&self) -> Option<Outcome> {
        let unknown = self.answers.iter().find(|(fate, ..)| *fate == Fate::Unknown);
        let handler = self.finished.map(|(_, outcome)| match outcome {
            Outcome::Interrupted => Outcome::Return,
            said => said,
        });
        let given_back = self.given_back.filter(|_| self.answers.is_empty());
        unknown.map(|(_, outcome, ..)| *outcome).or(given_back).or(handler)
    }
}

/// A record of the final dump.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) key: i64,
    pub(super) state: JobState,
    pub(super) crashes: u16,
}

/// Everything about one job, by the store's id.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub(super) id: i64,
    pub(super) acked_key: Option<i64>,
    pub(super) acked: u64,
    /// Acknowledged so shortly before an asynchronous failover that it may be lost.
    pub(super) in_doubt: bool,
    /// Completed when a dump was taken, or perhaps: a restore drops the history of completed jobs.
    pub(super) left_behind: bool,
    pub(super) rolled_back: bool,
    /// Keys that handlers read from its args, each once.
    pub(super) seen_keys: Vec<i64>,
    /// Leases in the store's order.
    pub(super) holds: Vec<Hold>,
    /// Starts of a handler without a claim that anybody noted.
    pub(super) unclaimed_starts: Vec<u64>,
    /// Workers whose settlement was accepted, though they had no claim that anybody noted.
    pub(super) stray_writes: Vec<i32>,
    /// When somebody first wanted to cancel it.
    pub(super) cancel_asked: Option<u64>,
    /// When somebody was told that it is cancelled, and that it is deleted.
    pub(super) cancelled: Option<u64>,
    pub(super) deleted: Option<u64>,
    /// Whether somebody wanted to delete it.
    pub(super) delete_asked: bool,
    pub(super) retries_asked: usize,
    /// The first key of which it was acknowledged that it took another's place in this job, and when.
    pub(super) placed: Option<(i64, u64)>,
    /// When the first call was sent that may have put another job in its place.
    pub(super) replaced: Option<u64>,
    /// How long after the first enqueue it was seen to be put off, and how long it may be, in microseconds.
    pub(super) put_off: Vec<(i64, i64)>,
    /// What those who waited for it were told, and when.
    pub(super) waited: Vec<(Option<JobState>, u64)>,
    /// Stored as cancelled because nobody started it in time.
    pub(super) expired: bool,
    pub(super) records: Vec<Record>,
    /// When commits of its effect together with its completion were begun.
    pub(super) effects_sent: Vec<u64>,
    /// How often its effect is stored.
    pub(super) effects: usize,
    /// Whether a handler was about to complete it with a result.
    pub(super) returned: bool,
    /// The keys that its stored results name.
    pub(super) results: Vec<i64>,
}

/// What a producer knows of a key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Key {
    /// When it was sent first.
    pub(super) sent: Option<u64>,
    pub(super) failed: bool,
    pub(super) unknown: bool,
    pub(super) rolled_back: bool,
    pub(super) acked: Option<i64>,
    /// Acknowledged with another id as well.
    pub(super) acked_twice: Option<i64>,
    /// Acknowledged as not stored, because another job has its unique key.
    pub(super) kept: bool,
    /// Whether it takes the place of a job that waits under its unique key.
    pub(super) replaces: bool,
    /// Acknowledged as in such a job's place: as which job, when that was sent, and when it was noted.
    pub(super) replaced: Option<(i64, u64, u64)>,
    /// The key that it has for a while, for how many nanoseconds, and when it was sent.
    pub(super) window: Option<(i64, u64, u64)>,
    /// How long after the store has it it may be started, in nanoseconds, and when that was said.
    pub(super) expires: Option<(u64, u64)>,
    /// Its unique key, and when it was sent.
    pub(super) unique: Option<(i64, u64)>,
}

/// An acknowledgement that an enqueue found its unique key taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) key: i64,
    /// Who has the key.
    pub(super) holder: i64,
    pub(super) sent: u64,
    pub(super) noted: u64,
}

/// The history by job.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) by_id: BTreeMap<i64, Job>,
    pub(super) keys: HashMap<i64, Key>,
    pub(super) kept: Vec<Kept>,
    /// Likewise, of those that made the window of the key's job begin anew.
    pub(super) extended: Vec<Kept>,
    /// Whether the run said that it drained.
    pub(super) stuck: bool,
    /// When it first did: unique keys are taken once more after that.
    pub(super) drained: Option<u64>,
}

impl Jobs {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn of(history: &History) -> Self {
        let mut jobs = Self::default();
        for recorded in &history.events {
            let (number, _) = history.processes[recorded.process as usize];
            jobs.note_enqueue(&recorded.event);
            if let Some(id) = recorded.event.what.job() {
                let job = jobs.by_id.entry(id).or_insert_with(|| Job { id, ..Job::default() });
                job.note(number, &recorded.event);
            }
        }
        jobs
    }

    /// What was acknowledged shortly before these failovers to an asynchronous standby is unknown.
    pub(super) fn doubt(&mut self, failovers: &[u64]) {
        let lost = |at: u64| {
            failovers
                .iter()
                .any(|began| (began.saturating_sub(TAIL_NS)..began.saturating_add(TAIL_NS)).contains(&at))
        };
        for job in self.by_id.values_mut() {
            job.in_doubt = lost(job.acked);
            for answer in job.holds.iter_mut().flat_map(|hold| &mut hold.answers) {
                if lost(answer.3) && answer.0 != Fate::Refused {
                    answer.0 = Fate::Unknown;
                }
            }
        }
    }

    fn note_enqueue(&mut self, event: &Event) {
        match event.what {
            What::UniqueSent { key, unique } => {
                self.keys.entry(key).or_default().unique = Some((unique, event.at));
            }
            What::WindowSent { key, unique, window_ms } => {
                let window = (unique, window_ms.saturating_mul(1_000_000), event.at);
                self.keys.entry(key).or_default().window = Some(window);
            }
            What::Expires { key, after_ms } => {
                self.keys.entry(key).or_default().expires =
                    Some((after_ms.saturating_mul(1_000_000), event.at));
            }
            What::Kept { key, id, sent } => {
                self.keys.entry(key).or_default().kept = true;
                self.kept.push(Kept { key, holder: id, sent, noted: event.at });
            }
            What::Extended { key, id, sent } => {
                self.keys.entry(key).or_default().kept = true;
                self.extended.push(Kept { key, holder: id, sent, noted: event.at });
            }
            What::ReplaceSent { key } => self.keys.entry(key).or_default().replaces = true,
            What::Replaced { key, id, sent } => {
                self.keys.entry(key).or_default().replaced = Some((id, sent, event.at));
            }
            What::EnqueueSent { key } => {
                self.keys.entry(key).or_default().sent.get_or_insert(event.at);
            }
            What::EnqueueFailed { key } => self.keys.entry(key).or_default().failed = true,
            What::EnqueueUnknown { key } => self.keys.entry(key).or_default().unknown = true,
            What::RolledBack { key, .. } => self.keys.entry(key).or_default().rolled_back = true,
            What::EnqueueAcked { key, id } => {
                let known = self.keys.entry(key).or_default();
                match known.acked {
                    Some(before) if before != id => known.acked_twice = Some(id),
                    _ => known.acked = Some(id),
                }
            }
            What::Phase { phase: Phase::Stuck } => self.stuck = true,
            What::Phase { phase: Phase::Drained } => self.drained = self.drained.or(Some(event.at)),
            _ => {}
        }
    }
}

impl Job {
    fn note(&mut self, process: i64, event: &Event) {
        let at = event.at;
        match event.what {
            What::EnqueueAcked { key, .. } => (self.acked_key, self.acked) = (Some(key), at),
            What::RolledBack { .. } => self.rolled_back = true,
            What::Claimed { worker, lane, seq, attempt, crashes, sent, .. } => self.holds.push(Hold {
                process,
                worker,
                lane,
                seq,
                attempt,
                crashes,
                sent,
                claimed: at,
                started: None,
                ran: None,
                finished: None,
                given_back: None,
                resumed: None,
                checkpoints: Vec::new(),
                effect_sent: None,
                answers: Vec::new(),
            }),
            What::Started { worker, seq, key, .. } => {
                if !self.seen_keys.contains(&key) {
                    self.seen_keys.push(key);
                }
                match self.hold(process, worker, seq, |hold| hold.started.is_none()) {
                    Some(hold) => (hold.started, hold.ran) = (Some(at), Some(key)),
                    None => self.unclaimed_starts.push(at),
                }
            }
            What::Finished { worker, seq, outcome, .. } => {
                if let Some(hold) = self.hold(process, worker, seq, |hold| hold.started.is_some()) {
                    hold.finished = Some((at, outcome));
                }
            }
            What::GivenBack { worker, seq, outcome, .. } => {
                if let Some(hold) = self.hold(process, worker, seq, |_| true) {
                    hold.given_back = Some(outcome);
                }
            }
            What::Settled { worker, seq, fate, outcome, sent, .. } => {
                match self.hold(process, worker, seq, |_| true) {
                    Some(hold) => hold.answers.push((fate, outcome, sent, at)),
                    // Who settles notes the claim first, so nothing excuses this.
                    None if fate == Fate::Accepted => self.stray_writes.push(worker),
                    None => {}
                }
            }
            What::EffectSent { worker, seq, .. } => {
                self.effects_sent.push(at);
                if let Some(hold) = self.hold(process, worker, seq, |_| true) {
                    hold.effect_sent = hold.effect_sent.or(Some(at));
                }
            }
            What::Returned { .. } => self.returned = true,
            What::StoredResult { key, .. } => self.results.push(key),
            What::Effect { .. } => self.effects += 1,
            What::CancelAsked { done, .. } => {
                self.cancel_asked = self.cancel_asked.or(Some(at));
                self.cancelled = self.cancelled.or(done.then_some(at));
            }
            What::DeleteAsked { done, .. } => {
                self.delete_asked = true;
                self.deleted = self.deleted.or(done.then_some(at));
            }
            What::Resumed { worker, seq, from, .. } => {
                if let Some(hold) = self.hold(process, worker, seq, |_| true) {
                    hold.resumed = Some(from);
                }
            }
            What::CheckpointSent { worker, seq, value, .. } => {
                if let Some(hold) = self.hold(process, worker, seq, |_| true) {
                    hold.checkpoints.push((value, false, at));
                }
            }
            What::CheckpointKept { worker, seq, value, .. } => {
                if let Some(hold) = self.hold(process, worker, seq, |_| true) {
                    hold.checkpoints.push((value, true, at));
                }
            }
            What::Replaced { key, .. } => self.placed = self.placed.or(Some((key, at))),
            What::PutOff { after_us, most_us, .. } => self.put_off.push((after_us, most_us)),
            What::Waited { state, .. } => self.waited.push((state, at)),
            What::Expired { .. } => self.expired = true,
            What::RetryAsked { done: false, .. } => self.retries_asked += 1,
            What::Stored { key, state, crashes, .. } => self.records.push(Record { key, state, crashes }),
            _ => {}
        }
    }

    /// The newest lease of this claim that is as wanted.
    fn hold(
        &mut self,
        process: i64,
        worker: i32,
        seq: i64,
        wanted: impl Fn(&Hold) -> bool,
    ) -> Option<&mut Hold> {
        let is = |hold: &&mut Hold| {
            (hold.process, hold.worker, hold.seq) == (process, worker, seq) && wanted(hold)
        };
        self.holds.iter_mut().rev().find(is)
    }
}
