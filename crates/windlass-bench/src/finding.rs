use crate::worker_settings::Settling;
use serde_json::{Map, Value};

/// What a case found.
pub(crate) struct Finding {
    pub(crate) bench: &'static str,
    /// How its workers settled; `None` when none worked.
    pub(crate) settling: Option<Settling>,
    pub(crate) settings: Map<String, Value>,
    pub(crate) figures: Map<String, Value>,
}

impl Finding {
    pub(crate) fn new(
        bench: &'static str,
        settling: impl Into<Option<Settling>>,
        (settings, figures): (Value, Value),
    ) -> Self {
        Self { bench, settling: settling.into(), settings: object(settings), figures: object(figures) }
    }

    /// Adds what it cost.
    pub(crate) fn costing(mut self, costs: Map<String, Value>, commits_per_job: Option<f64>) -> Self {
        self.figures.extend(costs);
        if let Some(commits) = commits_per_job {
            self.figures.insert("commits_per_job".to_owned(), commits.into());
        }
        self
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => [("value".to_owned(), other)].into_iter().collect(),
    }
}
