//! Unique keys: at no time do two jobs have one, and who is told that a key is taken was told the truth.

use super::{Book, Entry, Key, Stage};
use crate::permuter::{call::UNIQUE_KIND, scenario::Way};
use windlass_core::{Conflict, EnqueuedUnique, JobId};

impl Book {
    /// The transaction of an enqueue committed.
    pub(super) fn stored_unique(&mut self, keys: &[u8], way: Way, stored: &[EnqueuedUnique]) {
        if keys.len() != stored.len() {
            return self.blame(format!("{} answers for {} unique jobs", stored.len(), keys.len()));
        }
        for (number, &EnqueuedUnique { id, conflict }) in keys.iter().zip(stored) {
            let key = Key { number: *number, until_started: way == Way::UntilStarted };
            match conflict {
                Some(Conflict::Replaced) => self.replaced(key, id),
                Some(_) if !self.jobs.contains_key(&id) => {
                    self.blame(format!("job {id}, which has key {number}, was never committed"));
                }
                Some(_) => {}
                None => {
                    self.enqueued(id, UNIQUE_KIND);
                    self.jobs.entry(id).and_modify(|entry| entry.key = Some(key));
                    self.must_have_its_key_alone(id);
                }
            }
        }
    }

    /// A job took the place of another one: under its id, or under a new one and the other is cancelled. It has the key as it says itself.
    fn replaced(&mut self, key: Key, id: JobId) {
        let free = |stage| {
            matches!(stage, Stage::Available | Stage::NoHandler | Stage::Waiting { retryable: false })
        };
        if self.jobs.contains_key(&id) {
            self.jobs.entry(id).and_modify(|entry| (entry.args, entry.key) = ("{}".to_owned(), Some(key)));
            return self.moved(id, "replaced", free, Stage::Available);
        }
        let has = |entry: &Entry| entry.has_number(key.number) && !entry.now().is_final();
        let old: Vec<_> = self.jobs.iter().filter(|(_, entry)| has(entry)).map(|(&id, _)| id).collect();
        let [old] = old[..] else {
            return self.blame(format!("job {id} replaced {old:?} under key {}", key.number));
        };
        self.moved(old, "replaced", free, Stage::Cancelled);
        self.enqueued(id, UNIQUE_KIND);
        self.jobs.entry(id).and_modify(|entry| entry.key = Some(key));
    }

    /// A job took its key: no other has it. One that was started has it no more, if it had it until then, or only as long as
    /// nobody took it.
    pub(super) fn must_have_its_key_alone(&mut self, id: JobId) {
        let Some(key) = self.jobs.get(&id).and_then(|entry| entry.key) else { return };
        let rivals = self.jobs.iter().filter(|(other, entry)| {
            let has = !entry.now().is_final() && !entry.may_be_cancelled();
            **other != id && has && entry.has_number(key.number)
        });
        let rivals: Vec<_> = rivals.map(|(&id, _)| id).collect();
        if !rivals.is_empty() {
            self.blame(format!("job {id} took key {}, which {rivals:?} has", key.number));
        }
    }

    /// Whoever was told that a job has the key was told so while it did.
    pub(super) fn must_be_kept(&mut self, keys: &[u8], stored: &[EnqueuedUnique], tick: u64) {
        for (number, stored) in keys.iter().zip(stored) {
            if stored.conflict == Some(Conflict::Kept) && !self.had(*number, Some(stored.id), None, tick) {
                let past = self.jobs.get(&stored.id).map(|entry| &entry.past);
                let what = format!("job {} had key {number} at no time: {past:?}", stored.id);
                self.blame(what);
            }
        }
    }

    /// An enqueue was refused because one of its keys is taken.
    pub(super) fn must_be_taken(&mut self, keys: &[u8], tick: u64) {
        if !keys.iter().any(|number| self.had(*number, None, None, tick)) {
            self.blame(format!("nobody had one of the keys {keys:?}, yet an enqueue was refused for one"));
        }
    }

    /// A retry was refused because another job has the key.
    pub(super) fn must_have_lost_its_key(&mut self, id: JobId, tick: u64) {
        let key = self.jobs.get(&id).and_then(|entry| entry.key);
        if !key.is_some_and(|key| self.had(key.number, None, Some(id), tick)) {
            self.blame(format!("nobody else had the key of job {id}, yet its retry was refused for it"));
        }
    }

    /// Whether a job, this one or any but that one, had the key at some time from `tick` on.
    fn had(&self, number: u8, this: Option<JobId>, but: Option<JobId>, tick: u64) -> bool {
        self.jobs.iter().any(|(&id, entry)| {
            let same = entry.key.is_some_and(|key| key.number == number);
            let may = this.is_none_or(|this| this == id) && but != Some(id);
            let until_started = entry.key.is_some_and(|key| key.until_started);
            let holds = |stage: Stage| match stage {
                Stage::Running(..) | Stage::Waiting { retryable: true } => !until_started,
                stage => !stage.is_final(),
            };
            same && may && entry.was(tick, holds)
        })
    }
}

impl Entry {
    /// Whether this is its key: not any more where it had that until it was started, and was.
    fn has_number(&self, number: u8) -> bool {
        let was_started = || self.past.iter().any(|(_, stage)| matches!(stage, Stage::Running(..)));
        self.key.is_some_and(|key| key.number == number && !(key.until_started && was_started()))
    }
}
