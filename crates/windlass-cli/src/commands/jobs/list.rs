use super::filter::{ByArgs, Filter, HasArgs};
use crate::{
    failure::Outcome,
    globals::Globals,
    table::table,
    text::{escape, json_text, shorten},
};
use std::{
    fmt::Write as _,
    io::{self, Write},
};
use windlass::{Args, Client, Envelope, JobFilter, JobPage, JobRecord, PageToken};

/// How much of a job's args a list shows.
const ARGS_SHOWN: usize = 60;

/// How many pages that were not full one call reads at most. Each looked at some 50,000 jobs.
const MAX_PAGES: usize = 20;
/// How many jobs are read at once: as many as likely fit into so many bytes, since one may have megabytes.
const FIRST_READ: u32 = 20;
const MOST_READ: u32 = 1_000;
const READ_BYTES: usize = 8 << 20;

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
        match globals.json {
            true => json(client, filter).await,
            false => {
                let mut rows = Vec::new();
                let next = each(client, filter, |jobs| {
                    rows.extend(jobs.iter().map(row));
                    Ok(())
                });
                let next = next.await?;
                globals.print(&(), || text(&rows, next.as_ref()))
            }
        }
    }
}

/// Prints `{"jobs": […], "next": …}` as it is read: large jobs do not all fit in memory.
async fn json(client: &Client, filter: JobFilter) -> Outcome {
    let mut begun = false;
    let next = each(client, filter, |jobs| {
        for job in jobs {
            let before = if std::mem::replace(&mut begun, true) { "," } else { "{\n  \"jobs\": [" };
            let job = in_list(job).replace('\n', "\n    ");
            write!(io::stdout().lock(), "{before}\n    {job}")?;
        }
        Ok(())
    });
    let next = json_text(&next.await?);
    let end = if begun { "\n  ]" } else { "{\n  \"jobs\": []" };
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{end},\n  \"next\": {next}\n}}")?;
    Ok(stdout.flush()?)
}

/// A list reads no errors, which are the last member of a job, and must not say that there were none.
fn in_list(job: &JobRecord) -> String {
    let text = json_text(job);
    text.strip_suffix(",\n  \"errors\": []\n}").map(|rest| format!("{rest}\n}}")).unwrap_or(text)
}

/// Follows pages until the limit is reached, nothing is left, or enough was looked at.
async fn each(
    client: &Client,
    mut filter: JobFilter,
    mut take: impl FnMut(&[JobRecord]) -> Outcome,
) -> Outcome<Option<PageToken>> {
    let (mut left, mut read, mut short) = (filter.limit, FIRST_READ, 0);
    loop {
        filter.limit = left.min(read);
        let JobPage { jobs, next } = client.jobs(&filter).await?;
        take(&jobs)?;
        let count = u32::try_from(jobs.len()).unwrap_or(left);
        left = left.saturating_sub(count);
        short += usize::from(count < filter.limit);
        if left == 0 || next.is_none() || short == MAX_PAGES {
            return Ok(next);
        }
        filter.after = next;
        // Those that follow are likely as large.
        let bytes: usize = jobs.iter().map(size).sum();
        let fit = READ_BYTES * jobs.len().max(1) / bytes.max(1);
        read = u32::try_from(fit).unwrap_or(MOST_READ).clamp(1, MOST_READ);
    }
}

/// About how many bytes a job has.
fn size(job: &JobRecord) -> usize {
    job.args.len() + job.meta.as_ref().map_or(0, Args::len) + job.result.as_ref().map_or(0, Args::len)
}

fn row(job: &JobRecord) -> Vec<String> {
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
}

fn text(rows: &[Vec<String>], next: Option<&PageToken>) -> String {
    if rows.is_empty() && next.is_none() {
        return "no jobs\n".to_owned();
    }
    let headers = [">ID", "STATE", "QUEUE", ">PRIORITY", "KIND", ">ATTEMPT", "ENQUEUED", "ARGS"];
    let mut text = match rows.is_empty() {
        true => "no such job so far\n".to_owned(),
        false => table(&headers, rows),
    };
    if let Some(next) = next {
        let _ = writeln!(text, "\nthere may be more; continue with --after {}", next.0);
    }
    text
}
