//! Limits: of a key no more jobs are held at once than it may have, serial ones keep their order, and workers have no more
//! slots of the queue than there are.
//!
//! What somebody changes beside a claim may count for it or not: it is judged by the most that held while it ran.

use super::{Book, Entry, Stage};
use crate::permuter::{limits::KEYED_KIND, scenario::KeyRule};
use windlass_core::{Claim, JobId, Share, ShareRequest, WorkerId};

impl Book {
    /// The transaction of an enqueue committed.
    pub(super) fn stored_about(&mut self, keys: &[u8], ids: &[JobId]) {
        for (&key, &id) in keys.iter().zip(ids) {
            self.enqueued(id, KEYED_KIND);
            self.jobs.entry(id).and_modify(|entry| entry.about = Some(key));
        }
    }

    /// The transaction of a claim committed, and its jobs are entered.
    pub(super) fn must_keep_limits(&mut self, worker: WorkerId, claim: &Claim) {
        let began = self.claims.get(&claim.reference).copied().unwrap_or(self.tick);
        let unlimited = since(&self.queue_limits, began, None).any(|most| most.is_none());
        let slots = self.workers.get(&worker).map_or(&[][..], |entry| &entry.slots);
        if !claim.jobs.is_empty() && !unlimited && since(slots, began, 0).all(|slots| slots == 0) {
            self.blame(format!("worker {worker} was handed jobs of a limited queue, and has no slot"));
        }
        for job in &claim.jobs {
            if let Some(key) = self.jobs.get(&job.id).and_then(|entry| entry.about) {
                self.must_have_room(job.id, key, began);
            }
        }
    }

    fn must_have_room(&mut self, id: JobId, key: u8, began: u64) {
        let rules = || since(&self.key_rules, began, KeyRule::Free);
        let most = rules().map(most).max().unwrap_or(usize::MAX);
        let running = |entry: &Entry| matches!(entry.now(), Stage::Running(..));
        let of_key = || self.jobs.iter().filter(|(_, entry)| entry.about == Some(key));
        let held = of_key().filter(|(_, entry)| running(entry)).count();
        let mut wrong = Vec::new();
        if held > most {
            wrong.push(format!("job {id} makes it {held} that are held of key {key}, of {most}"));
        }
        if rules().all(|rule| rule == KeyRule::Serial) {
            let set = self.key_rules.last().map_or(0, |&(at, _)| at);
            let again = self.jobs.get(&id).is_some_and(|entry| entry.handed_out_since(set) > 1);
            let others = of_key().filter(|(other, entry)| **other != id && !entry.is_over());
            wrong.extend(others.filter_map(|(other, entry)| {
                let begun = entry.handed_out_since(set) > 0;
                let passed = !again && *other < id && entry.waits_since(began);
                let why = if begun { "begun and not over" } else { "there before it" };
                (begun || passed)
                    .then(|| format!("job {id} of serial key {key} came while {other} was {why}"))
            }));
        }
        wrong.into_iter().for_each(|what| self.blame(what));
    }

    /// The transaction of a share committed. Shares of a queue, and changes of its limit, come one after the other.
    pub(super) fn shared(&mut self, request: &ShareRequest, share: &Share) {
        let worker = request.worker;
        self.must_live(worker, "got a share");
        let running = request.queues.first().map_or(0, |need| need.running);
        let had = |slots: &[(u64, u32)]| slots.last().map_or(0, |&(_, slots)| slots);
        let others = self.workers.iter().filter(|(other, _)| **other != worker);
        let others: u32 = others.map(|(_, entry)| had(&entry.slots)).sum();
        let limit = self.queue_limit();
        if share.slots.is_some() != limit.is_some() {
            self.blame(format!("worker {worker} got {share:?} of a queue with the limit {limit:?}"));
        }
        if let (Some(slots), Some(limit)) = (share.slots, limit)
            && slots > limit.saturating_sub(others).max(running)
        {
            self.blame(format!("worker {worker} got {slots} slots beside {others} of others, of {limit}"));
        }
        let entry = (self.tick, share.slots.unwrap_or(0));
        self.workers.entry(worker).and_modify(|worker| worker.slots.push(entry));
    }

    /// A limit of the queue was set or taken away. Where there was or is none, nobody has slots.
    pub(super) fn limited(&mut self, most: Option<u32>) {
        if most.is_none() || self.queue_limit().is_none() {
            let workers: Vec<_> = self.workers.keys().copied().collect();
            workers.into_iter().for_each(|worker| self.slots_end(worker));
        }
        self.queue_limits.push((self.tick, most));
    }

    /// The worker is no more.
    pub(super) fn slots_end(&mut self, worker: WorkerId) {
        let tick = self.tick;
        self.workers.entry(worker).and_modify(|entry| entry.slots.push((tick, 0)));
    }

    /// How many jobs of the queue may run at once now.
    pub(crate) fn queue_limit(&self) -> Option<u32> {
        self.queue_limits.last().and_then(|&(_, most)| most)
    }
}

impl Entry {
    fn is_over(&self) -> bool {
        self.now().is_final() || self.may_be_cancelled()
    }

    /// How often it was handed out after this tick. What brings a job back that was over has it start anew.
    fn handed_out_since(&self, tick: u64) -> usize {
        let anew = self.past.iter().rev().take_while(|(_, stage)| !stage.is_final());
        anew.filter(|(at, stage)| *at > tick && matches!(stage, Stage::Running(..))).count()
    }

    /// Whether it was to be had before this tick, and still is.
    fn waits_since(&self, tick: u64) -> bool {
        self.past.last().is_some_and(|&(at, stage)| at < tick && stage == Stage::Available)
    }
}

fn most(rule: KeyRule) -> usize {
    match rule {
        KeyRule::Free => usize::MAX,
        KeyRule::AtOnce(most) => most as usize,
        KeyRule::Serial => 1,
    }
}

/// What held at some time from `tick` on; `first` before anything was said.
fn since<T: Copy>(past: &[(u64, T)], tick: u64, first: T) -> impl Iterator<Item = T> {
    let start = past.iter().rev().find(|&&(at, _)| at < tick).map_or(first, |&(_, what)| what);
    std::iter::once(start).chain(past.iter().filter(move |&&(at, _)| at >= tick).map(|&(_, what)| what))
}
