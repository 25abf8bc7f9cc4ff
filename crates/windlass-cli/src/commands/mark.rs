use crate::{failure::Outcome, globals::Globals, open};

/// The options of `mark`.
#[derive(clap::Args)]
pub(crate) struct MarkOf {
    /// What happened, as a version: "release 4f2a9c1"
    label: String,
}

impl MarkOf {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let client = open::existing(globals.url()).await?;
        client.mark_as(globals.entry("mark", &self.label)).await?;
        client.close().await;
        globals.print(&serde_json::json!({ "marked": self.label.trim() }), || "marked\n".to_owned())
    }
}
