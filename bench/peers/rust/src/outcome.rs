use crate::{Settings, System};
use anyhow::Context as _;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The figures of a scenario.
#[derive(Default)]
pub(crate) struct Outcome(Map<String, Value>);

impl Outcome {
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Adds how long something took, and how many jobs that is in a second.
    pub(crate) fn rate(self, what: &str, jobs: u64, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        self.with(&format!("{what}_per_second"), (jobs as f64 / seconds).round() as u64)
            .with(&format!("{what}_seconds"), (seconds * 1e3).round() / 1e3)
    }

    /// The line that the caller reads.
    pub(crate) fn json<S: System>(self, settings: &Settings) -> anyhow::Result<Value> {
        let version = locked_version(S::PACKAGE)?;
        Ok(json!({ "version": version, "settings": S::describe(settings), "figures": self.0 }))
    }
}

/// The version that was built, from the lock file.
fn locked_version(package: &str) -> anyhow::Result<&'static str> {
    let name = format!("name = \"{package}\"\nversion = \"");
    let (_, after) = include_str!("../Cargo.lock")
        .split_once(&name)
        .with_context(|| format!("Cargo.lock has no {package}"))?;
    Ok(after.split('"').next().unwrap_or(after))
}
