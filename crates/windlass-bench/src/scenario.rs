use serde::Serialize;

/// Measurements that answer one question.
#[derive(Serialize)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// What it measures.
    pub(crate) about: &'static str,
    /// The published benchmark that it answers, with its figures.
    pub(crate) seed: &'static str,
    /// What is measured, each in a process of its own.
    pub(crate) points: &'static [Point],
}

/// One measurement of a scenario.
#[derive(Serialize)]
pub(crate) struct Point {
    /// Its name among the points of the scenario.
    pub(crate) name: &'static str,
    /// The arguments of `windlass-bench` that measure it.
    pub(crate) line: &'static str,
}
