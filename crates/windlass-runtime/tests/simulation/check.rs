//! The invariants, over what happened. It knows the rules of the queue and nothing of model or engine.

use crate::{
    check_process::Processes,
    fake::history::{End, Event, Fate, Lease, What, Why},
    process::lends,
};
use std::{collections::BTreeMap, time::Duration};

/// From this crash count on a job runs alone, after a call to the store.
pub const SUSPECT: u16 = 2;

/// How long a result may wait for the store when all is well.
const AT_ONCE: Duration = Duration::from_secs(1);

/// How long foreign code may take to begin what it took.
const HANDOVER: Duration = Duration::from_millis(10);

/// What breaks the rules.
pub fn check(events: &[Event]) -> Vec<String> {
    let mut check = Check::default();
    for event in events {
        check.processes.enter(event);
        check.enter(event);
    }
    for (id, job) in &check.jobs {
        if job.state != State::Final {
            check.broken.push(format!("job {id}: it is lost, or never ended: {:?}", job.state));
        }
    }
    check.processes.end();
    check.broken.extend(check.processes.broken);
    check.broken
}

#[derive(Default)]
struct Check {
    jobs: BTreeMap<i64, Job>,
    holdings: BTreeMap<Lease, Holding>,
    processes: Processes,
    broken: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waits,
    Held(Lease),
    Final,
}

struct Job {
    state: State,
    attempt: u16,
    crash_count: u16,
    /// Its worker died since it was last claimed.
    crashed: bool,
    /// Somebody wanted it cancelled while it ran.
    unwanted: bool,
}

/// One lease of one job.
struct Holding {
    client: usize,
    attempt: u16,
    crash_count: u16,
    started: Option<Duration>,
    finished: Option<(Duration, End, bool)>,
}

impl Check {
    fn enter(&mut self, event: &Event) {
        let Some(id) = event.what.job() else { return };
        let result = match &event.what {
            What::Enqueued { crash_count, .. } => {
                let crash_count = *crash_count;
                self.jobs.insert(
                    id,
                    Job { state: State::Waits, attempt: 1, crash_count, crashed: false, unwanted: false },
                );
                Ok(())
            }
            What::Claimed { lease, attempt, crash_count } => {
                self.claimed(event.client, *lease, *attempt, *crash_count)
            }
            What::Started { lease, attempt, crash_count } => {
                self.started(event, *lease, *attempt, *crash_count)
            }
            What::Finished { lease, end, cancelled } => self.finished(event, *lease, *end, *cancelled),
            What::Settled { lease, fate } => self.settled(event, *lease, *fate),
            What::Released { lease, why } => self.released(event, *lease, *why),
            What::RetriedByHand(_) => {
                let job = self.job(id);
                if job.state == State::Final {
                    (job.attempt, job.crash_count, job.crashed) = (1, 0, false);
                }
                (job.state, job.unwanted) = (State::Waits, false);
                Ok(())
            }
            What::CancelAsked(_) => {
                self.job(id).unwanted = true;
                Ok(())
            }
            What::CrashLoop(_) | What::CancelledByHand(_) => self.end(id),
            _ => Ok(()),
        };
        if let Err(words) = result {
            self.broken.push(format!("job {id}: {words}, at {event}"));
        }
    }

    fn job(&mut self, id: i64) -> &mut Job {
        self.jobs.get_mut(&id).expect("a job that was enqueued")
    }

    /// Puts an end to a job; the only one.
    fn end(&mut self, id: i64) -> Result<(), String> {
        match std::mem::replace(&mut self.job(id).state, State::Final) {
            State::Final => Err("it ended twice".to_owned()),
            _ => Ok(()),
        }
    }

    fn claimed(&mut self, client: usize, lease: Lease, attempt: u16, crash_count: u16) -> Result<(), String> {
        let job = self.job(lease.job);
        if job.state != State::Waits {
            return Err(format!("it was handed out while it was {:?}", job.state));
        }
        if job.unwanted {
            return Err("it was handed out although it was to be cancelled".to_owned());
        }
        if job.attempt != attempt {
            return Err(format!("it is attempt {}, not {attempt}", job.attempt));
        }
        let counts = job.crash_count..=job.crash_count + u16::from(job.crashed);
        if !counts.contains(&crash_count) {
            return Err(format!("the crash count should be in {counts:?}, not {crash_count}"));
        }
        (job.state, job.crash_count, job.crashed) = (State::Held(lease), crash_count, false);
        let holding = Holding { client, attempt, crash_count, started: None, finished: None };
        self.holdings.insert(lease, holding);
        Ok(())
    }

    fn started(&mut self, event: &Event, lease: Lease, attempt: u16, crash_count: u16) -> Result<(), String> {
        let holding = self.holdings.get_mut(&lease).ok_or("it started without a lease")?;
        if holding.client != event.client {
            return Err("it started in another process".to_owned());
        }
        if let Some(before) = holding.started.replace(event.at) {
            return Err(format!("it started twice under one lease, first at {before:?}"));
        }
        if (holding.attempt, holding.crash_count) != (attempt, crash_count) {
            return Err("its handler was told wrong counts".to_owned());
        }
        if self.processes.was_told_lost(event.client, lease.worker, event.at) {
            return Err("it started although its worker knew that the lease was lost".to_owned());
        }
        // Foreign code begins a moment later what it took before.
        let taken = if lends(event.client) { event.at.saturating_sub(HANDOVER) } else { event.at };
        if self.processes.is_stopping(event.client, taken) {
            return Err("it started although its worker stops".to_owned());
        }
        Ok(())
    }

    fn finished(&mut self, event: &Event, lease: Lease, end: End, cancelled: bool) -> Result<(), String> {
        let holding = self.holdings.get_mut(&lease).ok_or("it finished without a lease")?;
        let started = holding.started.ok_or("it finished before it started")?;
        if holding.finished.replace((event.at, end, cancelled)).is_some() {
            return Err("it finished twice".to_owned());
        }
        self.processes.ran_on(event.client, lease.worker, started, event.at)
    }

    fn settled(&mut self, event: &Event, lease: Lease, fate: Fate) -> Result<(), String> {
        if self.job(lease.job).state != State::Held(lease) {
            return Err("a settlement under a lease that is over was accepted".to_owned());
        }
        let holding = &self.holdings[&lease];
        let fits = match (fate, holding.finished) {
            (Fate::Complete, Some((_, End::Completed, _))) => true,
            (Fate::Retry | Fate::Discard { failed: true }, Some((_, End::Failed, _))) => true,
            (Fate::Snooze, Some((_, End::Snoozed, _))) => true,
            (Fate::Cancel, Some((_, End::Cancelled, _))) => true,
            (Fate::Cancel, _) if self.jobs[&lease.job].unwanted => true,
            (Fate::Discard { failed: false }, Some((_, End::Discarded, _))) => true,
            // What was lent is taken back at once, and foreign code hears of it afterwards.
            (Fate::Return, None) if lends(holding.client) => true,
            // What foreign code had not taken when its worker began to stop, in that moment or before.
            (Fate::Snooze, None) if lends(holding.client) => {
                let now = event.at + Duration::from_nanos(1);
                holding.started.is_none() && self.processes.is_stopping(event.client, now)
            }
            (Fate::NoHandler | Fate::Return, None) => holding.started.is_none(),
            (Fate::Return, Some((_, End::Dropped, _))) => true,
            // A suspect waits for the store before its fate is decided; its interruption may come meanwhile.
            (Fate::Return, Some((_, End::Failed, cancelled))) => cancelled || holding.crash_count >= SUSPECT,
            _ => false,
        };
        if !fits {
            return Err(format!("its handler said {:?}", holding.finished));
        }
        if holding.client != event.client {
            return Err("another process settled it".to_owned());
        }
        if let Some((at, ..)) = holding.finished
            && event.at > at + AT_ONCE
            && !self.processes.had_trouble(event.client, at, event.at)
        {
            return Err(format!("its result of {at:?} was held back and no fault explains it"));
        }
        match fate {
            Fate::Complete | Fate::Cancel | Fate::Discard { .. } => return self.end(lease.job),
            Fate::Retry => self.job(lease.job).attempt += 1,
            Fate::Snooze | Fate::NoHandler | Fate::Return => {}
        }
        self.job(lease.job).state = State::Waits;
        Ok(())
    }

    fn released(&mut self, event: &Event, lease: Lease, why: Why) -> Result<(), String> {
        let job = self.job(lease.job);
        if job.state != State::Held(lease) {
            return Err(format!("it was handed back while it was {:?}", job.state));
        }
        (job.state, job.crashed) = (State::Waits, why == Why::Overdue);
        let holding = &self.holdings[&lease];
        if let Some((at, end, _)) = holding.finished
            && end != End::Dropped
            && !self.processes.had_trouble(holding.client, at, event.at)
        {
            return Err("its result was thrown away and no fault explains it".to_owned());
        }
        Ok(())
    }
}
