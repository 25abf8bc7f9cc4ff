//! Random histories against a model: whatever the order of calls, a store and `windlass-memory`, which is asked the
//! same, agree on where each job is. Only what the contract leaves open is written down here. A crowd that calls at
//! the same time has no oracle, because nobody knows in which order it was heard: there heads are counted.
//!
//! `WINDLASS_MODEL_SEEDS=N` runs more histories, `WINDLASS_MODEL_SEED=S` repeats one. A failure prints its
//! seed and the calls that led to it.

mod check;
mod claiming;
mod crowd;
mod editing;
mod enqueuing;
mod keyed;
mod once;
mod oracle;
mod play;
mod reporting;
mod settling;
mod told;

use crate::Fixture;
use play::Play;
use std::env;

/// How many calls one history makes.
const CALLS: usize = 150;
/// How many calls lie between two comparisons of everything.
const CALLS_BETWEEN_CHECKS: usize = 15;
/// How many crowds gather at most; each takes as long as several histories.
const CROWDS: u64 = 3;

fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("WINDLASS_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WINDLASS_MODEL_SEEDS").unwrap_or(usual),
    }
}

/// After any calls in any order, each job is where the model says, and a drain ends each as it says.
pub async fn one_caller_agrees_with_the_model(fixture: &dyn Fixture) {
    let mut handles = Vec::new();
    for _ in 0..=play::WORKERS {
        handles.push(fixture.open().await);
    }
    for seed in seeds(fixture.histories()) {
        let mut play = Play::begin(seed, handles.clone()).await;
        for call in 1..=CALLS {
            play.call().await;
            if call % CALLS_BETWEEN_CHECKS == 0 {
                play.check().await;
            }
        }
        play.finish().await;
    }
}

/// However many do anything at the same time, segments rotating under them: each job that was acknowledged
/// ends once, none is lost and none is stuck.
pub async fn a_crowd_loses_nothing(fixture: &dyn Fixture) {
    for seed in seeds(fixture.histories().min(CROWDS)) {
        crowd::gather(fixture, seed).await;
    }
}
