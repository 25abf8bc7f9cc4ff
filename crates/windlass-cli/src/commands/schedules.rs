mod apply;
mod list;
mod preview;
mod set;

use super::enqueue::done;
use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    open,
    text::escape,
};
use apply::Apply;
use list::List;
use preview::Preview;
use serde_json::json;
use set::Set;
use std::collections::BTreeSet;
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
                let printed = globals.print(&json!({ "schedule": name, "id": id }), || id.to_string());
                done(printed, || format!("job {id}"))
            }
            Self::Pause { names } => Change::Pause.all(globals, client, &names).await,
            Self::Resume { names } => Change::Resume.all(globals, client, &names).await,
            Self::Remove { names } => Change::Remove.all(globals, client, &names).await,
            Self::Apply(_) | Self::Preview(_) | Self::Set(_) => Ok(()),
        }
    }
}

/// What is done to schedules by their names.
#[derive(Clone, Copy)]
enum Change {
    Pause,
    Resume,
    Remove,
}

impl Change {
    /// As the audit log has it, and what its schedules are then.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Pause => ("schedules.pause", "paused"),
            Self::Resume => ("schedules.resume", "resumed"),
            Self::Remove => ("schedules.remove", "removed"),
        }
    }

    /// Changes all of them, or none where one is not there.
    async fn all(self, globals: &Globals, client: &Client, names: &[String]) -> Outcome {
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        all_known(client, &names).await?;
        let (action, done) = self.words();
        for name in &names {
            let changed = match self {
                Self::Pause => client.schedules().pause(name).await,
                Self::Resume => client.schedules().resume(name).await,
                Self::Remove => client.schedules().remove(name).await,
            };
            globals.did(client, action, name, changed).await?;
        }
        let answer: Vec<_> = names.iter().map(|name| json!({ "schedule": name, "reply": done })).collect();
        let line = |name: &&str| format!("{done} schedule {}\n", escape(name));
        globals.print(&answer, || names.iter().map(line).collect())
    }
}

async fn all_known(client: &Client, names: &BTreeSet<&str>) -> Outcome {
    let mut unknown = Vec::new();
    for name in names {
        if client.schedules().get(name).await?.is_none() {
            unknown.push(format!("{name:?}"));
        }
    }
    let message = match &*unknown {
        [] => return Ok(()),
        [name] => format!("schedule {name} does not exist; nothing was changed"),
        several => format!("schedules {} do not exist; nothing was changed", several.join(", ")),
    };
    Err(Failure::failed("not_found", message))
}
