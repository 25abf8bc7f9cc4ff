use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long a job whose key is missing waits at least, and at most.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// How many keys are remembered; jobs of any further ones wait longest.
const MOST: usize = 100;

/// What this worker was missed, and since when: the longer, the longer a job waits before a worker looks at it again.
/// Each wait is as long as all before it, so the delays double without a count in the job.
#[derive(Debug, Default)]
pub(super) struct MissingKeys {
    since: Mutex<HashMap<String, Instant>>,
}

impl MissingKeys {
    /// How long a job waits now that lacks `what`, and whether that is news.
    pub(super) fn delay(&self, what: &str) -> (Duration, bool) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = since.get(what) {
            return (first.elapsed().clamp(SHORTEST, LONGEST), false);
        }
        if since.len() >= MOST {
            return (LONGEST, false);
        }
        since.insert(what.to_owned(), Instant::now());
        (SHORTEST, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_the_longest() {
        let missing = MissingKeys::default();
        assert_eq!(missing.delay("k1"), (Duration::from_secs(1), true));
        let mut delays = Vec::new();
        for _ in 0..11 {
            tokio::time::advance(Duration::from_secs(*delays.last().unwrap_or(&1))).await;
            delays.push(missing.delay("k1").0.as_secs());
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(missing.delay("k1"), (LONGEST, false));
        assert_eq!(missing.delay("k2"), (SHORTEST, true), "each key by itself");
    }

    #[tokio::test(start_paused = true)]
    async fn any_number_of_keys_takes_bounded_memory() {
        let missing = MissingKeys::default();
        for n in 0..2 * MOST {
            missing.delay(&n.to_string());
        }
        assert_eq!(missing.since.lock().unwrap().len(), MOST);
        assert_eq!(missing.delay("one more"), (LONGEST, false));
    }
}
