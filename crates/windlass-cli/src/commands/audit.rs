use crate::{
    failure::Outcome,
    globals::Globals,
    open,
    table::table,
    text::{escape, shorten},
    time,
};
use jiff::Timestamp;
use std::fmt::Write;
use windlass::{Args, AuditFilter, AuditId, AuditPage, AuditRecord, Client, Error};

/// How much of a filter or a reason a list shows.
const SHOWN: usize = 60;

/// How many pages one call reads at most. Each looks at some 10,000 entries.
const MAX_PAGES: usize = 100;

/// Which entries of the audit log to list.
#[derive(clap::Args)]
pub(crate) struct Audit {
    /// Only what this person or program did
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only this action, such as queues.pause
    #[arg(long)]
    action: Option<String>,
    /// Only what was done to this
    #[arg(long)]
    target: Option<String>,
    /// Only from this time on: 2031-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<Timestamp>,
    /// Continue where a list ended that printed this id
    #[arg(long, value_name = "ID")]
    before: Option<AuditId>,
    /// The most entries to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=i64::from(AuditFilter::MAX_LIMIT)))]
    limit: u32,
}

impl Audit {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let Self { actor, action, target, since, before, limit } = self;
        let client = open::existing(globals.url()).await?;
        let page = look(&client, AuditFilter { actor, action, target, since, before, limit }).await?;
        client.close().await;
        let answer = serde_json::json!({ "entries": page.entries, "next": page.next });
        globals.print(&answer, || text(&page))
    }
}

/// Follows pages until the limit is reached, nothing is left, or enough was looked at.
async fn look(client: &Client, mut filter: AuditFilter) -> Result<AuditPage, Error> {
    let limit = filter.limit as usize;
    let mut all = AuditPage::default();
    for _ in 0..MAX_PAGES {
        let page = client.audit(&filter).await?;
        all.entries.extend(page.entries);
        all.next = page.next;
        if all.entries.len() >= limit || all.next.is_none() {
            break;
        }
        filter.limit = u32::try_from(limit - all.entries.len()).unwrap_or(filter.limit);
        filter.before = all.next;
    }
    Ok(all)
}

fn text(page: &AuditPage) -> String {
    let mut text = match (page.entries.is_empty(), page.next) {
        (true, None) => return "no entries\n".to_owned(),
        (true, Some(_)) => "no such entry so far\n".to_owned(),
        (false, _) => {
            let rows: Vec<_> = page.entries.iter().map(row).collect();
            table(&["AT", "ACTOR", "VIA", "ACTION", "ON", ">JOBS", "OUTCOME", "DETAILS"], &rows)
        }
    };
    if let Some(next) = page.next {
        let _ = writeln!(text, "\nthere may be more; continue with --before {next}");
    }
    text
}

fn row(AuditRecord { at, entry, .. }: &AuditRecord) -> Vec<String> {
    let filter = entry.filter.as_ref().map(Args::as_str);
    let details: Vec<_> =
        filter.into_iter().chain(entry.reason.as_deref()).map(|text| shorten(text, SHOWN)).collect();
    vec![
        at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        escape(&entry.actor),
        escape(&entry.via),
        escape(&entry.action),
        escape(&entry.target),
        entry.count.map_or_else(|| "-".to_owned(), |count| count.to_string()),
        escape(&entry.outcome),
        details.join("; "),
    ]
}
