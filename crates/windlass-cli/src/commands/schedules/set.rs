use crate::{
    commands::enqueue::{JobOptions, args},
    duration,
    failure::{Failure, Outcome},
    globals::Globals,
    open,
    text::escape,
    time,
};
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;
use windlass::{Missed, NewJob, Overlap, Schedule, SchedulePut, preview};

/// What to declare.
#[derive(clap::Args)]
pub(crate) struct Set {
    /// The schedule's name
    name: String,
    /// Five fields (minute hour day-of-month month day-of-week), six with seconds first, an alias such as @daily, or
    /// an interval such as "every 90s"
    cron: String,
    /// The kind of its jobs
    kind: String,
    /// The args of its jobs as JSON
    #[arg(default_value = "{}")]
    args: String,
    /// The time zone in which the fields are read
    #[arg(long, default_value = Schedule::DEFAULT_ZONE)]
    zone: String,
    /// The queue of its jobs
    #[arg(long, default_value = NewJob::DEFAULT_QUEUE)]
    queue: String,
    /// Lower runs first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i16,
    /// How often each job is tried at most
    #[arg(long, default_value_t = NewJob::DEFAULT_MAX_ATTEMPTS)]
    max_attempts: u16,
    /// No tick is before this time: 2031-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    start: Option<Timestamp>,
    /// Every tick is before this time
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    end: Option<Timestamp>,
    /// Has each tick fire up to so much later, by a part that follows from name and tick: 30s, 5m
    #[arg(long, value_parser = duration::parse)]
    jitter: Option<Duration>,
    /// What happens at a tick while the job before has not ended: allow, skip or queue-one
    #[arg(long, default_value = "allow", value_parser = overlap)]
    overlap: Overlap,
    /// Which ticks fire that nobody was there to fire in time: none, last, or a number of ticks at most
    #[arg(long, default_value = "last", value_parser = missed)]
    missed: Missed,
    /// Who declares it, for `apply --prune`
    #[arg(long, default_value = "")]
    source: String,
    #[command(flatten)]
    options: JobOptions,
}

fn overlap(word: &str) -> Result<Overlap, String> {
    match word {
        "allow" => Ok(Overlap::Allow),
        "skip" => Ok(Overlap::Skip),
        "queue-one" | "queue_one" => Ok(Overlap::QueueOne),
        _ => Err(format!("unknown policy {word:?}; use allow, skip or queue-one")),
    }
}

fn missed(word: &str) -> Result<Missed, String> {
    match (word, word.parse::<u16>()) {
        ("none", _) => Ok(Missed::None),
        ("last", _) => Ok(Missed::Last),
        (_, Ok(most)) if (1..=Missed::MOST).contains(&most) => Ok(Missed::All(most)),
        _ => Err(format!("unknown policy {word:?}; use none, last or a number of 1 to {}", Missed::MOST)),
    }
}

impl Set {
    pub(crate) async fn run(self: Box<Self>, globals: &Globals) -> Outcome {
        let schedule = self.schedule()?;
        // Before anything is opened or made.
        let next = preview(&schedule, Timestamp::now(), 1)?.pop();
        let client = open::create(globals.url()).await?;
        let name = schedule.name().to_owned();
        let put = client.schedules().put([schedule]).await;
        let put = globals.did(&client, "schedules.put", &name, put).await?.puts[0];
        client.close().await;
        let answer = json!({
            "schedule": name,
            "reply": word(put),
            "next": next.as_ref().map(|next| next.timestamp().to_string()),
        });
        globals.print(&answer, || {
            let next = next.map_or_else(|| "never".to_owned(), |next| shown(&next));
            format!("{} schedule {}; next tick: {next}", word(put), escape(&name))
        })
    }

    fn schedule(self) -> Outcome<Schedule> {
        if self.options.ends_at_one_moment() {
            let message = "--expires-at is one moment, after which all jobs of the schedule would be cancelled; say --expires-in, how long each may wait, or --end, when there are no more of them";
            return Err(Failure::usage("invalid_option", message));
        }
        let job = NewJob::new(self.kind, args(&self.args)?)
            .with_queue(self.queue)
            .with_priority(self.priority)
            .with_max_attempts(self.max_attempts);
        let mut schedule = Schedule::new(self.name, self.cron, self.options.apply(job))
            .with_zone(self.zone)
            .with_overlap(self.overlap)
            .with_missed(self.missed)
            .with_source(self.source)
            .with_jitter(self.jitter.unwrap_or_default());
        if let Some(start) = self.start {
            schedule = schedule.with_start(start);
        }
        Ok(match self.end {
            Some(end) => schedule.with_end(end),
            None => schedule,
        })
    }
}

/// What became of a declaration.
pub(super) fn word(put: SchedulePut) -> &'static str {
    match put {
        SchedulePut::Created => "created",
        SchedulePut::Changed => "changed",
        _ => "unchanged",
    }
}

/// A tick for people.
pub(super) fn shown(tick: &jiff::Zoned) -> String {
    tick.strftime("%a %Y-%m-%d %H:%M:%S %:z").to_string()
}
