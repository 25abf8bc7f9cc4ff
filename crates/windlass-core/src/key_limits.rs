use crate::{Error, ErrorKind, Limits, QueueLimits, RateLimit, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

/// What holds for the jobs of a queue that have the same [key](crate::Attributes::key), over all workers of the store.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{KeyLimit, RateLimit};
///
/// let five_at_once = KeyLimit::default().with_concurrency(5);
/// let one_after_the_other = KeyLimit::serial();
/// let hundred_a_minute = KeyLimit::default().with_rate(RateLimit::new(100, Duration::from_secs(60)));
/// let three_times_the_share = KeyLimit::default().with_weight(3);
/// let all = [five_at_once, one_after_the_other, hundred_a_minute, three_times_the_share];
/// assert!(all.iter().all(|limit| limit.check().is_ok()));
/// assert!(KeyLimit::default().with_weight(0).check().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct KeyLimit {
    /// How many of them workers hold at once, at most, started or not: 1 to [`QueueLimits::MAX_CONCURRENCY`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// One after the other, in the order of their ids: the next is handed out when the one before is over, also where that
    /// is tried again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub serial: bool,
    /// How many of them start in a time, at most: `count` in every window of `period`, wherever it begins. A job counts from when it is handed out until `period` after
    /// it is held no more, however it ended; each attempt counts, and counts as one whatever it [costs](crate::Attributes::cost). Without a burst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
    /// How large a share of the queue they get while other keys have jobs too: 1 to [`Self::MAX_WEIGHT`], 1 by default.
    pub weight: u16,
}

/// The limits of a queue's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KeyLimits {
    /// What holds for every key that is not named.
    pub default: KeyLimit,
    /// What holds for single keys instead.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, KeyLimit>,
}

/// A change of the limits of a queue's keys. See [`JobStore::limit_keys`](crate::JobStore::limit_keys).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyLimitsChange {
    /// Every key that is not named gets this limit.
    Default(KeyLimit),
    /// These keys get limits of their own, or (`None`) the default again. At most [`KeyLimits::MAX_NAMED`]; the last of a key counts.
    Named(Vec<(String, Option<KeyLimit>)>),
    /// The queue knows no keys any more.
    Off,
}

impl Default for KeyLimit {
    fn default() -> Self {
        Self { concurrency: None, serial: false, rate: None, weight: 1 }
    }
}

impl KeyLimit {
    /// The largest weight.
    pub const MAX_WEIGHT: u16 = 1_000;

    /// One after the other. See [`Self::serial`](field@Self::serial).
    pub const fn serial() -> Self {
        Self { concurrency: None, serial: true, rate: None, weight: 1 }
    }

    /// With another [`Self::concurrency`].
    #[must_use]
    pub const fn with_concurrency(mut self, concurrency: u32) -> Self {
        self.concurrency = Some(concurrency);
        self
    }

    /// With another [`Self::rate`].
    #[must_use]
    pub const fn with_rate(mut self, rate: RateLimit) -> Self {
        self.rate = Some(rate);
        self
    }

    /// With another [`Self::weight`].
    #[must_use]
    pub const fn with_weight(mut self, weight: u16) -> Self {
        self.weight = weight;
        self
    }

    /// How many jobs of the key workers may hold at once.
    pub const fn at_once(&self) -> Option<u32> {
        if self.serial { Some(1) } else { self.concurrency }
    }

    /// Checks the values; a store calls this before it keeps them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], which names the value.
    pub fn check(&self) -> Result<()> {
        if let Some(concurrency) = self.concurrency {
            QueueLimits::default().with_concurrency(concurrency).check()?;
            if self.serial && concurrency != 1 {
                return refuse(format!(
                    "a serial key has one job at once, so a concurrency of {concurrency} cannot be: leave out one of both"
                ));
            }
        }
        if let Some(rate) = self.rate {
            if rate.burst.is_some() {
                return refuse("the rate of a key has no burst: leave it out".to_owned());
            }
            QueueLimits::default().with_rate(rate).check()?;
        }
        match (1..=Self::MAX_WEIGHT).contains(&self.weight) {
            true => Ok(()),
            false => {
                refuse(format!("the weight of a key must be 1 to {}, got {}", Self::MAX_WEIGHT, self.weight))
            }
        }
    }
}

impl KeyLimits {
    /// The most keys that one change names.
    pub const MAX_NAMED: usize = 10_000;

    /// What holds for a key.
    pub fn of(&self, key: &str) -> KeyLimit {
        self.named.get(key).copied().unwrap_or(self.default)
    }

    /// A page of the named keys, by name, and whether there are more: at most `most`, behind `after`, with `search` in them, whatever the case of its ASCII letters.
    pub fn page(&self, search: &str, after: Option<&str>, most: usize) -> (Vec<(&str, KeyLimit)>, bool) {
        let part = search.to_ascii_lowercase();
        let behind = (after.map_or(Unbounded, Excluded), Unbounded);
        let mut named = self
            .named
            .range::<str, _>(behind)
            .filter(|(key, _)| key.to_ascii_lowercase().contains(&part))
            .map(|(key, limit)| (&**key, *limit));
        (named.by_ref().take(most).collect(), named.next().is_some())
    }
}

impl KeyLimitsChange {
    /// Checks keys and values; a store calls this before it keeps them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], which names the key and the value.
    pub fn check(&self) -> Result<()> {
        let named = match self {
            Self::Default(limit) => return limit.check(),
            Self::Named(named) => named,
            Self::Off => return Ok(()),
        };
        if named.len() > KeyLimits::MAX_NAMED {
            let most = KeyLimits::MAX_NAMED;
            return refuse(format!("one call limits {most} keys at most, got {}: split them", named.len()));
        }
        for (key, limit) in named {
            Limits::check_key("a key", key)?;
            if let Some(limit) = limit {
                limit
                    .check()
                    .map_err(|error| Error::new(error.kind(), format!("key {key:?}: {}", error.reason())))?;
            }
        }
        Ok(())
    }

    /// Whether a queue that knows no keys stays as it is.
    pub fn only_takes_away(&self) -> bool {
        match self {
            Self::Default(_) => false,
            Self::Named(named) => named.iter().all(|(_, limit)| limit.is_none()),
            Self::Off => true,
        }
    }

    /// The limits after the change of those before; `None` for a queue that knows no keys.
    pub fn apply(&self, before: Option<KeyLimits>) -> Option<KeyLimits> {
        if before.is_none() && self.only_takes_away() {
            return None;
        }
        let mut limits = before.unwrap_or_default();
        match self {
            Self::Default(limit) => limits.default = *limit,
            Self::Named(named) => {
                for (key, limit) in named {
                    match limit {
                        Some(limit) => limits.named.insert(key.clone(), *limit),
                        None => limits.named.remove(key),
                    };
                }
            }
            Self::Off => return None,
        }
        Some(limits)
    }
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOption, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn refusal(change: &KeyLimitsChange) -> String {
        change.check().expect_err("refused").to_string()
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let default = |limit| refusal(&KeyLimitsChange::Default(limit));
        let any = KeyLimit::default();
        assert_eq!(default(any.with_concurrency(0)), "the limit of concurrency must be 1 to 1000000, got 0");
        let rate = |count, ms| any.with_rate(RateLimit::new(count, Duration::from_millis(ms)));
        assert_eq!(default(rate(0, 1_000)), "the count of a rate must be 1 to 1000000000, got 0");
        assert_eq!(default(rate(1, 99)), "the period of a rate must be 100 ms to 366 days, got 99ms");
        let burst = RateLimit::new(5, Duration::from_secs(1)).with_burst(5);
        assert_eq!(default(any.with_rate(burst)), "the rate of a key has no burst: leave it out");
        assert_eq!(default(any.with_weight(1_001)), "the weight of a key must be 1 to 1000, got 1001");
        assert!(default(KeyLimit::serial().with_concurrency(2)).contains("a concurrency of 2 cannot be"));
        let named = |key: &str, limit| refusal(&KeyLimitsChange::Named(vec![(key.into(), Some(limit))]));
        assert_eq!(
            named("acme", any.with_weight(0)),
            "key \"acme\": the weight of a key must be 1 to 1000, got 0"
        );
        assert!(named("", any).starts_with("a key must be 1 to 200 bytes"));
        let many = (0..=KeyLimits::MAX_NAMED).map(|n| (n.to_string(), None)).collect();
        assert_eq!(
            refusal(&KeyLimitsChange::Named(many)),
            "one call limits 10000 keys at most, got 10001: split them"
        );
        assert!(KeyLimitsChange::Default(KeyLimit::serial().with_concurrency(1)).check().is_ok());
    }

    #[test]
    fn a_rate_is_told_as_that_of_a_queue() {
        let limit = KeyLimit::serial().with_rate(RateLimit::new(100, Duration::from_secs(60)));
        let json = r#"{"serial":true,"rate":{"count":100,"period_ms":60000},"weight":1}"#;
        assert_eq!(serde_json::to_string(&limit).expect("JSON"), json);
        assert_eq!(serde_json::from_str::<KeyLimit>(json).expect("a limit"), limit);
        let without = serde_json::from_str::<KeyLimit>(r#"{"weight":3}"#).expect("a limit");
        assert_eq!(without, KeyLimit::default().with_weight(3));
    }

    #[test]
    fn changes_add_up() {
        let serial = KeyLimitsChange::Named(vec![("acme".into(), Some(KeyLimit::serial()))]).apply(None);
        let limits = KeyLimitsChange::Default(KeyLimit::default().with_weight(2)).apply(serial);
        let limits = limits.expect("limits");
        assert_eq!((limits.of("acme"), limits.of("other").weight), (KeyLimit::serial(), 2));
        let limits = KeyLimitsChange::Named(vec![("acme".into(), None)]).apply(Some(limits)).expect("limits");
        assert_eq!(limits.of("acme").weight, 2);
        assert_eq!(KeyLimitsChange::Off.apply(Some(limits)), None);
    }
}
