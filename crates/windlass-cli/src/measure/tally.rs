use std::sync::{
    OnceLock,
    atomic::{AtomicU8, AtomicU64, Ordering},
};

/// How many jobs share one piece of memory, which is allocated when the first of them is handled.
const CHUNK: usize = 1 << 20;
/// How many jobs can be counted: each takes a byte.
pub const MAX_JOBS: u64 = 1_000_000_000;

/// Proof that each of `n` numbered jobs was handled exactly once.
pub struct Tally {
    seen: Vec<OnceLock<Box<[AtomicU8]>>>,
    handled: AtomicU64,
    strangers: AtomicU64,
}

/// What is wrong when each job should have been handled once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Jobs that were never handled.
    pub lost: u64,
    /// Jobs that were handled more than once.
    pub repeated: u64,
    /// Jobs that nobody enqueued for this measurement.
    pub strangers: u64,
}

impl Tally {
    /// For numbers below [`MAX_JOBS`]; how many are expected need not be known before the end.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let chunks = (MAX_JOBS as usize).div_ceil(CHUNK);
        let seen = (0..chunks).map(|_| OnceLock::new()).collect();
        Self { seen, handled: AtomicU64::new(0), strangers: AtomicU64::new(0) }
    }

    /// A job was handled. Returns how many were so far. Relaxed is enough: only the sum matters until the end.
    pub fn note(&self, number: u64) -> u64 {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        match self.seen.get(index / CHUNK) {
            Some(chunk) => {
                let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU8::new(0)).collect());
                let seen = &chunk[index % CHUNK];
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
    pub fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// How often a job was handled.
    pub fn times(&self, number: u64) -> u8 {
        let index = number as usize;
        let chunk = self.seen.get(index / CHUNK).and_then(OnceLock::get);
        chunk.map_or(0, |chunk| chunk[index % CHUNK].load(Ordering::Relaxed))
    }

    /// What is wrong when the jobs numbered below `expected` were to be handled once each.
    pub fn faults(&self, expected: u64) -> Faults {
        let mut faults = Faults { strangers: self.strangers.load(Ordering::Relaxed), ..Faults::default() };
        let mut found = 0;
        for number in 0..expected {
            let times = u64::from(self.times(number));
            found += times;
            match times {
                0 => faults.lost += 1,
                1 => {}
                _ => faults.repeated += 1,
            }
        }
        // Nobody enqueued a number beyond the expected ones either.
        faults.strangers += self.handled().saturating_sub(found);
        faults
    }
}

impl Faults {
    /// Fails with a message if anything is wrong.
    pub fn check(self, expected: u64) -> Result<(), String> {
        if self == Self::default() {
            return Ok(());
        }
        let Self { lost, repeated, strangers } = self;
        Err(format!(
            "of {expected} jobs {lost} were never handled, {repeated} more than once, and {strangers} others came"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_each_once_is_right() {
        let tally = Tally::new();
        let verify = |tally: &Tally, expected| tally.faults(expected).check(expected);
        assert!(verify(&tally, 2).is_err());
        tally.note(0);
        tally.note(1);
        assert!(verify(&tally, 2).is_ok());
        assert!(verify(&tally, 1).unwrap_err().contains("1 others came"));
        tally.note(1);
        assert!(verify(&tally, 2).unwrap_err().contains("1 more than once"));
        let tally = Tally::new();
        tally.note(u64::MAX);
        assert!(verify(&tally, 0).is_err());
    }
}
