use crate::{
    commands::timings::{Asked, name},
    failure::Outcome,
    globals::Globals,
    open,
    table::table,
    text::{escape, shorten},
};
use indicatif::HumanCount;
use windlass::FailureGroup;

/// How much of an error a list shows.
const SHOWN: usize = 80;

/// The options of `failures`.
#[derive(clap::Args)]
pub(crate) struct FailuresOf {
    #[command(flatten)]
    asked: Asked,
    /// The most causes to list; default: all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl FailuresOf {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let request = self.asked.request();
        request.check()?;
        let client = open::existing(globals.url()).await?;
        let mut failures = client.failures(&request).await?;
        failures.truncate(self.limit.map_or(usize::MAX, |limit| limit as usize));
        client.close().await;
        globals.print(&serde_json::json!({ "failures": failures }), || text(&failures))
    }
}

fn text(failures: &[FailureGroup]) -> String {
    let row = |group: &FailureGroup| {
        vec![
            HumanCount(group.count).to_string(),
            name(group.queue.as_ref()),
            name(group.kind.as_ref()),
            group.first_at.to_string(),
            group.last_at.to_string(),
            group.last_job.to_string(),
            escape(&shorten(&group.sample, SHOWN)),
        ]
    };
    match failures {
        [] => "no attempt failed in that time\n".to_owned(),
        failures => table(
            &[">ATTEMPTS", "QUEUE", "KIND", "FIRST", "LAST", ">LAST JOB", "ERROR"],
            &failures.iter().map(row).collect::<Vec<_>>(),
        ),
    }
}
