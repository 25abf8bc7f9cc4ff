use crate::play::Played;
use std::fmt::{Display, Write};

/// Everything that happened.
pub fn whole(played: &Played) -> String {
    let mut text = format!("{:#?}\n", played.scenario);
    append(&mut text, played.events.iter());
    text
}

/// Fails the test with what it takes to understand and to replay the run.
pub fn fail_on_violations(played: &Played) {
    let Some(first) = played.violations.first() else { return };
    let mut text = String::new();
    append(&mut text, played.violations.iter().take(10));
    if let Some(job) = job_of(first) {
        let _ = writeln!(text, "history of job {job}:");
        append(&mut text, played.events.iter().filter(|event| event.what.job() == Some(job)));
    }
    let seed = played.scenario.seed;
    match played.scenario.nth_call {
        Some(nth) => panic!("{nth:?} breaks:\n{text}"),
        None => panic!(
            "seed {seed} breaks:\n{text}replay: WINDLASS_SIM_SEED={seed} cargo test -p windlass-runtime --test simulation seeds -- --exact --nocapture"
        ),
    }
}

fn append<T: Display>(text: &mut String, lines: impl Iterator<Item = T>) {
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
}

/// The job that a violation begins with.
fn job_of(violation: &str) -> Option<i64> {
    violation.strip_prefix("job ")?.split(':').next()?.parse().ok()
}
