use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Proof that each of `n` numbered jobs was handled exactly once.
pub(crate) struct Tally {
    seen: Vec<AtomicU8>,
    handled: AtomicU64,
    strangers: AtomicU64,
}

impl Tally {
    pub(crate) fn new(jobs: u64) -> Self {
        let mut seen = Vec::new();
        seen.resize_with(jobs as usize, AtomicU8::default);
        Self { seen, handled: AtomicU64::new(0), strangers: AtomicU64::new(0) }
    }

    /// A job was handled; how many were so far. Relaxed is enough: only the sum matters until the end.
    pub(crate) fn note(&self, number: u64) -> u64 {
        match usize::try_from(number).ok().and_then(|number| self.seen.get(number)) {
            Some(seen) => {
                let before = seen.fetch_add(1, Ordering::Relaxed);
                if before == u8::MAX {
                    seen.store(u8::MAX, Ordering::Relaxed);
                }
                self.handled.fetch_add(1, Ordering::Relaxed) + 1
            }
            None => {
                self.strangers.fetch_add(1, Ordering::Relaxed);
                self.handled()
            }
        }
    }

    /// How often jobs were handled so far, repetitions included.
    pub(crate) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// What is wrong: jobs that were never handled, or more than once, or that nobody enqueued.
    pub(crate) fn verify(&self) -> Result<(), String> {
        let count = |wanted: fn(u8) -> bool| {
            self.seen.iter().filter(|seen| wanted(seen.load(Ordering::Relaxed))).count()
        };
        let (lost, twice) = (count(|times| times == 0), count(|times| times > 1));
        let strangers = self.strangers.load(Ordering::Relaxed);
        if (lost, twice, strangers) == (0, 0, 0) {
            return Ok(());
        }
        Err(format!(
            "of {} jobs {lost} were never handled, {twice} more than once, and {strangers} others came",
            self.seen.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_each_once_is_right() {
        let tally = Tally::new(2);
        assert!(tally.verify().is_err());
        tally.note(0);
        tally.note(1);
        assert!(tally.verify().is_ok());
        tally.note(1);
        assert!(tally.verify().unwrap_err().contains("1 more than once"));
        let tally = Tally::new(0);
        tally.note(7);
        assert!(tally.verify().is_err());
    }
}
