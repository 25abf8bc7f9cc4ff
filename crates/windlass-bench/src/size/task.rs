use super::burden::Burden;
use serde::{Deserialize, Serialize};

/// What the process of a burden is to do: the line that it reads. It goes through a pipe, because the URL may hold a
/// password, which a list of processes would show.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) url: String,
    pub(crate) burden: Burden,
    pub(crate) amount: u64,
    /// The name of its place: on PostgreSQL the schema.
    pub(crate) place: String,
}

/// What it answers, once.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The burden is there, and stays until nothing can be read any more.
    Ready { seconds: f64 },
    /// Why not.
    Failed(String),
}
