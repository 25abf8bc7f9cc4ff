use super::filter::{ByArgs, Filter, HasArgs};
use crate::{
    failure::Outcome,
    globals::Globals,
    table::table,
    text::{escape, shorten},
};
use std::fmt::Write;
use windlass::{Client, Envelope, Error, JobFilter, JobPage, JobRecord, PageToken};

/// How much of a job's args a list shows.
const ARGS_SHOWN: usize = 60;

/// How many pages one call reads at most. Each looks at some 50,000 jobs.
const MAX_PAGES: usize = 20;

/// Which jobs to list.
#[derive(clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    has_args: HasArgs,
    /// Continue where a list ended that printed this token
    #[arg(long, value_name = "TOKEN")]
    after: Option<String>,
    /// The most jobs to list
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(JobFilter::MAX_LIMIT)))]
    limit: u32,
}

impl List {
    pub(crate) async fn run(self, globals: &Globals, client: &Client) -> Outcome {
        let after = self.after.map(PageToken);
        let args = self.has_args.wanted();
        let filter = JobFilter { args, after, limit: self.limit, ..self.filter.into() };
        let page = look(client, filter).await?;
        globals.print(&page, || text(&page))
    }
}

/// Follows pages until the limit is reached, nothing is left, or enough was looked at.
async fn look(client: &Client, mut filter: JobFilter) -> Result<JobPage, Error> {
    let limit = filter.limit as usize;
    let mut all = JobPage::default();
    for _ in 0..MAX_PAGES {
        let page = client.jobs(&filter).await?;
        all.jobs.extend(page.jobs);
        all.next = page.next;
        if all.len() >= limit || all.next.is_none() {
            break;
        }
        filter.limit = u32::try_from(limit - all.len()).unwrap_or(filter.limit);
        filter.after.clone_from(&all.next);
    }
    Ok(all)
}

fn text(page: &JobPage) -> String {
    if page.is_empty() && page.next.is_none() {
        return "no jobs\n".to_owned();
    }
    let row = |job: &JobRecord| {
        vec![
            job.id.to_string(),
            job.state.to_string(),
            escape(&job.queue),
            job.priority.to_string(),
            escape(&job.kind),
            format!("{}/{}", job.attempt, job.max_attempts),
            job.enqueued_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            Envelope::describe(&job.args).unwrap_or_else(|| shorten(job.args.as_str(), ARGS_SHOWN)),
        ]
    };
    let headers = [">ID", "STATE", "QUEUE", ">PRIORITY", "KIND", ">ATTEMPT", "ENQUEUED", "ARGS"];
    let mut text = match page.is_empty() {
        true => "no such job so far\n".to_owned(),
        false => table(&headers, &page.iter().map(row).collect::<Vec<_>>()),
    };
    if let Some(next) = &page.next {
        let _ = writeln!(text, "\nthere may be more; continue with --after {}", next.0);
    }
    text
}
