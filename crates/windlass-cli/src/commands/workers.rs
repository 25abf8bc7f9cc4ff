use super::status::workers as text;
use crate::{failure::Outcome, globals::Globals, open};
use serde_json::json;
use windlass::WorkerId;

/// The options of `workers`.
#[derive(clap::Args)]
pub(crate) struct Workers {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Lists the workers that registered lately, live ones first (`workers` alone does so, too)
    List,
    /// Asks a worker to take no more jobs, end what it runs, and go; its process ends with success
    Drain {
        /// The worker's number, as `windlass workers` lists it
        #[arg(value_name = "ID")]
        worker: i32,
    },
}

impl Workers {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let client = open::existing(globals.url()).await?;
        match self.action.unwrap_or(Action::List) {
            Action::List => {
                let status = client.status().await?;
                let more = if status.more_workers {
                    "\nthere are more, which registered before these\n"
                } else {
                    ""
                };
                globals.print(&status.workers, || text(&status.workers) + more)?;
            }
            Action::Drain { worker } => {
                let asked = client.drain_worker(WorkerId(worker)).await;
                globals.did(&client, "workers.drain", &worker.to_string(), asked).await?;
                globals.print(&json!({ "worker": worker, "draining": true }), || {
                    format!("worker {worker} drains")
                })?;
            }
        }
        client.close().await;
        Ok(())
    }
}
