//! The history checker: valid histories pass, and one broken promise is found.

use super::{
    broken::BREAKS,
    queue::{self, Choices},
};
use windlass_chaos::{
    checker::{Invariant, Report, Rules, Verdict, check, tell},
    history::History,
};

/// Runs a queue as the bytes say, and then breaks its history in each way that has a place in it.
pub fn body(data: &[u8]) {
    let _ = breaks(data);
}

/// As [`body`]; which of [`BREAKS`] had a place.
pub fn breaks(data: &[u8]) -> Vec<bool> {
    let valid = queue::run(&mut Choices::new(data));
    let report = check(&valid, &Rules::default());
    assert_eq!(report.verdict, Verdict::Valid, "a valid history is rejected\n{}", explain(&valid, &report));
    let decide = |(index, (name, invariant, broken)): (usize, &(&str, Invariant, super::broken::Break))| {
        let mut history = valid.clone();
        // Other places for each way, from the same bytes.
        let mut choices = Choices::new(&data[index.min(data.len())..]);
        if !broken(&mut history, &mut choices) {
            return false;
        }
        let report = check(&history, &Rules::default());
        let found = report.violated.contains_key(invariant);
        assert!(found, "{invariant} is not found: {name}\n{}", explain(&history, &report));
        true
    };
    BREAKS.iter().enumerate().map(decide).collect()
}

fn explain(history: &History, report: &Report) -> String {
    let told: Vec<String> = report
        .violations
        .iter()
        .map(|v| {
            format!("{} {}\n{}", v.invariant, v.text, v.job.map_or(String::new(), |id| tell(history, id)))
        })
        .collect();
    format!("{:?}\n{}", report.unknowns, told.join("\n"))
}
