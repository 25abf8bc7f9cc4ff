use serde::Serialize;

/// Measurements that answer one question.
#[derive(Serialize)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// What it measures.
    pub(crate) about: &'static str,
    /// Which published benchmark it answers, with the figures there.
    pub(crate) seed: &'static str,
    /// Each is measured in a process of its own.
    pub(crate) points: &'static [Point],
}

/// One measurement of a scenario.
#[derive(Serialize)]
pub(crate) struct Point {
    /// What tells it from the others.
    pub(crate) name: &'static str,
    /// Arguments of `windlass-bench`.
    pub(crate) line: &'static str,
}
