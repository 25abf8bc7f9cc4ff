//! The engine under a seeded simulator: several workers on `windlass-memory` behind a layer that delays, fails
//! and loses replies, on a paused clock. Every run is a function of its seed.
//!
//! `WINDLASS_SIM_SEED=17 cargo test -p windlass-runtime --test simulation seeds` replays one run and prints its
//! history; `WINDLASS_SIM_SEEDS=100000` plays that many. What a seed means changes with the simulator, so what it
//! found is kept as a test with a script of its own (`tests/engine/suspects.rs`, `tests/engine/epochs.rs`).
//!
//! `scripts/simulate-bugs` builds the engine with one defect at a time (features `bug_*`). How many seeds it takes
//! until each is found:
//!
//! | defect | seeds |
//! |---|---|
//! | a result is dropped when the store fails | 1 |
//! | a claim is settled as a whole with jobs unfinished | 1 |
//! | a finished job does not wake the settler | 1 |
//! | an executor is not given back after a panic | 1 |
//! | a claim whose reply was lost is forgotten | 6 |
//! | a shutdown deregisters before the last settlement | 25 |
//! | a lost lease is ignored by the heartbeat | 11 |
//! | a borrower is not told that a job was taken from it | 5 |
//! | a job spends one permission whatever it costs | 2 |
//! | a suspect runs although its lease was lost meanwhile | 74 |
#![allow(unreachable_pub, missing_docs, reason = "a test binary")]

#[path = "../fake/mod.rs"]
mod fake;

mod check;
mod check_keys;
mod check_process;
mod dice;
mod faults;
mod handlers;
mod lent;
mod nth_call;
mod play;
mod process;
mod report;
mod scenario;
mod world;

use play::play;
use scenario::Scenario;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many seeds are played when nobody says: seven times as many as the best hidden defect takes.
const SEEDS: u64 = 500;

fn from_env(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, got {value:?}")))
}

#[test]
fn seeds() {
    if let Some(seed) = from_env("WINDLASS_SIM_SEED") {
        let played = play(&Scenario::of(seed));
        println!("{}", report::whole(&played));
        return report::fail_on_violations(&played);
    }
    let (began, seeds) = (std::time::Instant::now(), from_env("WINDLASS_SIM_SEEDS").unwrap_or(SEEDS));
    // Threads take the seeds in turn; the lowest seed that breaks something is the one that is told, whatever their pace.
    let (next, lowest, events) = (AtomicU64::new(0), AtomicU64::new(seeds), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= lowest.load(Ordering::Relaxed) {
                        return;
                    }
                    let played = play(&Scenario::of(seed));
                    events.fetch_add(played.events.len(), Ordering::Relaxed);
                    if !played.violations.is_empty() {
                        lowest.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let lowest = lowest.into_inner();
    if lowest < seeds {
        report::fail_on_violations(&play(&Scenario::of(lowest)));
    }
    println!("{seeds} runs, {} events in {:?}", events.into_inner(), began.elapsed());
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for seed in 0..20 {
        let (first, second) = (play(&Scenario::of(seed)), play(&Scenario::of(seed)));
        let differs = first.events.iter().zip(&second.events).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!("seed {seed} runs apart at event {at}:\n{}\n{}", first.events[at], second.events[at]);
        }
        assert_eq!(first.events.len(), second.events.len(), "seed {seed}");
    }
}
