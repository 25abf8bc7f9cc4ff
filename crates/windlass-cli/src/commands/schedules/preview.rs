use super::set::shown;
use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    open, time,
};
use jiff::Timestamp;
use serde_json::json;
use windlass::{Args, NewJob, Schedule, preview};

/// Of what to show the next ticks.
#[derive(clap::Args)]
pub(crate) struct Preview {
    /// An expression, as for `set`
    #[arg(required_unless_present = "schedule")]
    cron: Option<String>,
    /// A schedule of the store, by its name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cron", "zone"])]
    schedule: Option<String>,
    /// The time zone in which the fields are read
    #[arg(long, default_value = Schedule::DEFAULT_ZONE)]
    zone: String,
    /// From when on, without a tick at that very time. Default: now, by this machine's clock
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    after: Option<Timestamp>,
    /// How many ticks
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    count: u16,
}

impl Preview {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let schedule = match (self.schedule, self.cron) {
            (Some(name), _) => stored(globals, &name).await?,
            (None, cron) => {
                let job = NewJob::new("preview", Args::parse("{}")?);
                Schedule::new("preview", cron.unwrap_or_default(), job).with_zone(self.zone)
            }
        };
        let after = self.after.unwrap_or_else(Timestamp::now);
        let ticks = preview(&schedule, after, self.count.into())?;
        let utc: Vec<_> = ticks.iter().map(|tick| tick.timestamp().to_string()).collect();
        let local: Vec<_> = ticks.iter().map(|tick| tick.to_string()).collect();
        globals.print(&json!({ "zone": schedule.zone(), "ticks": utc, "local": local }), || {
            match ticks.is_empty() {
                true => "no tick any more\n".to_owned(),
                false => ticks.iter().map(|tick| shown(tick) + "\n").collect(),
            }
        })
    }
}

async fn stored(globals: &Globals, name: &str) -> Outcome<Schedule> {
    let client = open::existing(globals.url()).await?;
    let listed = client.schedules().get(name).await?;
    client.close().await;
    let unknown = || Failure::failed("not_found", format!("schedule {name:?} does not exist"));
    Ok(listed.ok_or_else(unknown)?.record.schedule()?)
}
