//! Everything random comes from here.

use std::time::Duration;

/// A die with the throws that a simulation needs.
#[derive(Debug)]
pub struct Dice(fastrand::Rng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.0.u32(0..100) < percent
    }

    /// From `from` to `to`, both included.
    pub fn number(&mut self, from: usize, to: usize) -> usize {
        self.0.usize(from..=to)
    }

    pub fn millis(&mut self, from: usize, to: usize) -> Duration {
        Duration::from_millis(self.number(from, to) as u64)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.number(0, of.len() - 1)]
    }
}
