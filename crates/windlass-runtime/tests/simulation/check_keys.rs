//! The invariants of keys: how many jobs of one are held, how many are handed out in a time, and in which order those of a serial one are.

use crate::{
    fake::history::{Event, Fate, What},
    scenario::{AT_ONCE, RATE, SERIAL},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Which queue a job is in, and whom it is about.
pub type Place = (String, &'static str);

/// The jobs that have a key.
#[derive(Clone, Debug, Default)]
pub struct KeyedJobs {
    pub places: BTreeMap<i64, Place>,
    /// Those that are available from the beginning.
    pub at_once: BTreeSet<i64>,
}

#[derive(Default)]
struct Key {
    held: BTreeSet<i64>,
    /// Handed out, and not over.
    begun: BTreeSet<i64>,
    /// Available and never handed out.
    fresh: BTreeSet<i64>,
    /// When each that was held was held no more.
    ended: Vec<Duration>,
}

/// What breaks the rules of keys.
pub fn check(events: &[Event], jobs: &KeyedJobs) -> Vec<String> {
    let mut keys: BTreeMap<&Place, Key> = BTreeMap::new();
    let mut broken = Vec::new();
    for event in events {
        let Some(id) = event.what.job() else { continue };
        let Some(place) = jobs.places.get(&id) else { continue };
        if let Err(words) = keys.entry(place).or_default().enter(event, id, place.1, jobs) {
            broken.push(format!("job {id}: {words}, of key {place:?}, at {event}"));
        }
    }
    broken
}

impl Key {
    fn enter(&mut self, event: &Event, id: i64, key: &str, jobs: &KeyedJobs) -> Result<(), String> {
        let was_held = self.held.contains(&id);
        self.happens(event, id, key, jobs)?;
        if was_held && !self.held.contains(&id) {
            self.ended.push(event.at);
        }
        Ok(())
    }

    fn happens(&mut self, event: &Event, id: i64, key: &str, jobs: &KeyedJobs) -> Result<(), String> {
        match &event.what {
            What::Enqueued { .. } if jobs.at_once.contains(&id) => drop(self.fresh.insert(id)),
            What::Promoted(_) if !self.begun.contains(&id) => drop(self.fresh.insert(id)),
            What::RetriedByHand(_) if !self.begun.contains(&id) => drop(self.fresh.insert(id)),
            What::Claimed { .. } => return self.claimed(id, key, event.at),
            What::Settled { fate: Fate::Complete | Fate::Cancel | Fate::Discard { .. }, .. } => self.over(id),
            What::Settled { .. } | What::Released { .. } => drop(self.held.remove(&id)),
            What::CrashLoop(_) | What::CancelledByHand(_) => self.over(id),
            _ => {}
        }
        Ok(())
    }

    fn over(&mut self, id: i64) {
        for jobs in [&mut self.held, &mut self.begun, &mut self.fresh] {
            jobs.remove(&id);
        }
    }

    fn claimed(&mut self, id: i64, key: &str, at: Duration) -> Result<(), String> {
        let before = self.fresh.first().copied().filter(|first| *first < id && self.fresh.contains(&id));
        let others = self.begun.iter().copied().find(|other| *other != id);
        self.fresh.remove(&id);
        self.held.insert(id);
        self.begun.insert(id);
        let limit = AT_ONCE.iter().find(|(name, _)| *name == key).map_or(1, |(_, most)| *most as usize);
        let (rated, count, period) = RATE;
        self.ended.retain(|ended| *ended + period > at);
        let counting = self.held.len() + self.ended.len();
        if key == rated && counting > count as usize {
            return Err(format!("{counting} count for the rate, {count} may"));
        }
        match (before, others) {
            _ if self.held.len() > limit => {
                Err(format!("{} are held, {limit} may: {:?}", self.held.len(), self.held))
            }
            (Some(first), _) if key == SERIAL => Err(format!("it was handed out before job {first}")),
            (_, Some(other)) if key == SERIAL => {
                Err(format!("it was handed out while job {other} is not over"))
            }
            _ => Ok(()),
        }
    }
}
