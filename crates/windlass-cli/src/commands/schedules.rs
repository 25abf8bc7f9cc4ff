mod apply;
mod list;
mod preview;
mod set;

use crate::{failure::Outcome, globals::Globals, open, text::escape};
use apply::Apply;
use list::List;
use preview::Preview;
use serde_json::json;
use set::Set;
use windlass::Client;

/// What to do with schedules.
#[derive(clap::Subcommand)]
pub(crate) enum Schedules {
    /// Lists schedules: when each ticks next, ticked last, and how that ended
    List(List),
    /// Declares one schedule; what is there as declared stays as it is
    Set(Box<Set>),
    /// Declares all schedules of a TOML file
    Apply(Apply),
    /// Shows the next ticks of an expression, or of a schedule
    Preview(Preview),
    /// Enqueues the job of a schedule now, beside its ticks
    Run {
        /// The schedule's name
        name: String,
    },
    /// Stops schedules until they are resumed
    Pause {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Lets schedules go on, with the next tick from now on
    Resume {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Removes schedules; jobs that they enqueued stay
    Remove {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
}

impl Schedules {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        match self {
            // These need no store, or look for one only when everything else is right.
            Self::Apply(apply) => return apply.run(globals).await,
            Self::Preview(preview) => return preview.run(globals).await,
            Self::Set(set) => return set.run(globals).await,
            _ => {}
        }
        let client = open::existing(globals.url()).await?;
        let done = self.run_on(globals, &client).await;
        client.close().await;
        done
    }

    async fn run_on(self, globals: &Globals, client: &Client) -> Outcome {
        match self {
            Self::List(list) => list.run(globals, client).await,
            Self::Run { name } => {
                let id = client.schedules().run(&name).await;
                let id = globals.did(client, "schedules.run", &name, id).await?;
                globals.print(&json!({ "schedule": name, "id": id }), || id.to_string())
            }
            Self::Pause { names } => {
                for name in &names {
                    let done = client.schedules().pause(name).await;
                    globals.did(client, "schedules.pause", name, done).await?;
                }
                say(globals, &names, "paused")
            }
            Self::Resume { names } => {
                for name in &names {
                    let done = client.schedules().resume(name).await;
                    globals.did(client, "schedules.resume", name, done).await?;
                }
                say(globals, &names, "resumed")
            }
            Self::Remove { names } => {
                for name in &names {
                    let done = client.schedules().remove(name).await;
                    globals.did(client, "schedules.remove", name, done).await?;
                }
                say(globals, &names, "removed")
            }
            Self::Apply(_) | Self::Preview(_) | Self::Set(_) => Ok(()),
        }
    }
}

fn say(globals: &Globals, names: &[String], done: &str) -> Outcome {
    let answer: Vec<_> = names.iter().map(|name| json!({ "schedule": name, "reply": done })).collect();
    globals
        .print(&answer, || names.iter().map(|name| format!("{done} schedule {}\n", escape(name))).collect())
}
