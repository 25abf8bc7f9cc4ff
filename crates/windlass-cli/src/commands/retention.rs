use crate::{
    duration,
    failure::{Failure, Outcome},
    globals::Globals,
    open,
    table::table,
    text::escape,
};
use indicatif::HumanCount;
use std::time::Duration;
use windlass::{JobState, RetentionRule};

/// What is done with the rules.
#[derive(clap::Subcommand)]
pub(crate) enum Retention {
    /// Lists the rules; what they leave open is what `settings` says
    List,
    /// Keeps jobs of a queue that ended so for this long, or so many of them; the rule that was there goes
    Set {
        #[command(flatten)]
        place: Place,
        /// How long, such as 7days or 36h
        #[arg(long, value_name = "TIME", value_parser = duration::parse, required_unless_present = "count")]
        age: Option<Duration>,
        /// How many, the last; not for completed jobs, which are removed together
        #[arg(long, value_name = "COUNT")]
        count: Option<u64>,
    },
    /// Removes a rule
    Unset {
        #[command(flatten)]
        place: Place,
    },
}

/// Which rule.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// The queue; without it the rule is for every queue that has none of its own
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// How the jobs ended: completed, cancelled or discarded
    #[arg(long, value_name = "OUTCOME", value_parser = outcome)]
    outcome: JobState,
}

fn outcome(name: &str) -> Result<JobState, String> {
    let known = RetentionRule::OUTCOMES;
    known.into_iter().find(|outcome| outcome.as_str() == name).ok_or_else(|| {
        format!("unknown outcome {name:?}; use one of {}", known.map(JobState::as_str).join(", "))
    })
}

impl Place {
    fn rule(self, age: Option<Duration>, count: Option<u64>) -> Result<RetentionRule, Failure> {
        let mut rule = RetentionRule::of_every_queue(self.outcome);
        (rule.queue, rule.age, rule.count) = (self.queue, age, count);
        rule.check()?;
        Ok(rule)
    }
}

impl Retention {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let change = match self {
            Self::List => None,
            Self::Set { place, age, count } => Some(place.rule(age, count)?),
            Self::Unset { place } => Some(place.rule(None, None)?),
        };
        let client = open::existing(globals.url()).await?;
        if let Some(rule) = change {
            let target = format!("{} {}", rule.queue_name(), rule.outcome);
            let done = client.set_retention(&[rule]).await;
            globals.did(&client, "retention.put", &target, done).await?;
        }
        let rules = client.retention().await?;
        client.close().await;
        globals.print(&rules, || text(&rules))
    }
}

fn text(rules: &[RetentionRule]) -> String {
    if rules.is_empty() {
        return "no rules: all is kept as `windlass settings` says\n".to_owned();
    }
    let row = |rule: &RetentionRule| {
        let age = rule.age.map_or_else(|| "-".to_owned(), |age| humantime::format_duration(age).to_string());
        let count = rule.count.map_or_else(|| "-".to_owned(), |count| HumanCount(count).to_string());
        vec![escape(rule.queue_name()), rule.outcome.to_string(), age, count]
    };
    table(&["QUEUE", "OUTCOME", "AGE", ">COUNT"], &rules.iter().map(row).collect::<Vec<_>>())
}
