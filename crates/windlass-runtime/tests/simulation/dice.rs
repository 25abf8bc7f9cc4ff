//! Everything random comes from here.

use std::{cell::RefCell, time::Duration};

thread_local! {
    /// What the engine draws its jitter from: its option is a plain function.
    static JITTER: RefCell<fastrand::Rng> = const { RefCell::new(fastrand::Rng::with_seed(0)) };
}

/// Seeds the jitter of the engines of this thread.
pub fn seed_jitter(seed: u64) {
    JITTER.set(fastrand::Rng::with_seed(seed));
}

pub fn jitter() -> f64 {
    JITTER.with_borrow_mut(fastrand::Rng::f64)
}

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
