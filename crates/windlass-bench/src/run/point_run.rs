use serde::Serialize;
use serde_json::Value;

/// What became of a point.
#[derive(Serialize)]
pub(super) struct PointRun {
    pub(super) scenario: &'static str,
    pub(super) point: &'static str,
    pub(super) round: u32,
    pub(super) command: String,
    pub(super) status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) report: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Done,
    Skipped,
    Failed,
}
