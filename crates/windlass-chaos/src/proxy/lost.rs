//! Which ways of a connection lost bytes in a black hole.

use super::{Shared, faults::Way};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

pub(super) struct Lost {
    shared: Arc<Shared>,
    up: AtomicBool,
    down: AtomicBool,
}

impl Lost {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, up: AtomicBool::new(false), down: AtomicBool::new(false) }
    }

    pub(super) fn has(&self, way: Way) -> bool {
        self.of(way).load(Relaxed)
    }

    pub(super) fn lose(&self, way: Way, bytes: usize) {
        self.shared.counters.lost(bytes);
        self.of(way).store(true, Relaxed);
    }

    fn of(&self, way: Way) -> &AtomicBool {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }
}
