use crate::{failure::Outcome, globals::Globals, open};
use serde_json::json;
use windlass::redact_url;

/// Creates or upgrades the schema.
pub(crate) async fn run(globals: &Globals) -> Outcome {
    let client = open::create(globals.url()).await?;
    let report = client.migrate().await?;
    client.close().await;
    let url = redact_url(globals.url());
    globals.print(&json!({ "store": url, "from": report.from, "to": report.to }), || {
        match (report.from, report.to) {
            (0, to) => format!("created schema version {to} in {url}"),
            (from, to) if from == to => format!("schema of {url} is at version {to} already"),
            (from, to) => format!("upgraded schema of {url} from version {from} to {to}"),
        }
    })
}
