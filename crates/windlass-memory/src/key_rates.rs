//! Rates of keys: what is held no more and still counts.

use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap};
use windlass_core::KeyLimits;

/// Of each key of a queue that has a rate: until when each job counts that is held no more.
#[derive(Debug, Default)]
pub(crate) struct Ended(HashMap<String, Vec<Timestamp>>);

impl Ended {
    /// A job of the key is held no more, and counts until then.
    pub(crate) fn add(&mut self, key: &str, until: Timestamp) {
        self.0.entry(key.to_owned()).or_default().push(until);
    }

    /// How many count of each key.
    pub(crate) fn counts(&self, now: Timestamp) -> HashMap<&str, u32> {
        let count = |ends: &Vec<Timestamp>| ends.iter().filter(|end| **end > now).count() as u32;
        self.0.iter().map(|(key, ends)| (&**key, count(ends))).collect()
    }

    /// When the first of each key counts no more.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.0.iter().filter_map(|(key, ends)| Some((&**key, *ends.iter().min()?)))
    }

    /// A key without a rate forgets what counted.
    pub(crate) fn follow(&mut self, limits: Option<&KeyLimits>) {
        self.0.retain(|key, _| limits.is_some_and(|limits| limits.of(key).rate.is_some()));
    }

    /// Forgets what is past. The keys of which something was.
    pub(crate) fn forget_past(&mut self, now: Timestamp) -> BTreeSet<String> {
        let mut past = BTreeSet::new();
        self.0.retain(|key, ends| {
            let before = ends.len();
            ends.retain(|end| *end > now);
            if ends.len() < before {
                past.insert(key.clone());
            }
            !ends.is_empty()
        });
        past
    }
}
