use crate::{duration, failure::Outcome, globals::Globals, open, table::table, text::escape};
use indicatif::HumanCount;
use std::time::Duration;
use windlass::{Count, EventType, HistoryRequest};

/// The options of `history`.
#[derive(clap::Args)]
pub(crate) struct HistoryOf {
    /// How far back, up to 30days
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "1h", visible_alias = "since")]
    last: Duration,
    /// How much time one line is of: whole minutes
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "1m")]
    step: Duration,
    /// Only of this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only of what ended so: completed, failed, retried, snoozed, cancelled, discarded, rescued, returned or deleted
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<EventType>,
}

impl HistoryOf {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let mut request = HistoryRequest::last(self.last);
        (request.step, request.queue, request.kind, request.outcome) =
            (self.step, self.queue, self.kind, self.outcome);
        request.check()?;
        let client = open::existing(globals.url()).await?;
        let history = client.history(&request).await?;
        client.close().await;
        globals
            .print(&history, || format!("{}counted until {}\n", text(&history.counts), history.counted_until))
    }
}

fn text(counts: &[Count]) -> String {
    let row = |count: &Count| {
        let name = |name: &Option<String>| name.as_deref().map_or_else(|| Count::ANY.to_owned(), escape);
        let (queue, kind) = (name(&count.queue), name(&count.kind));
        vec![
            count.at.to_string(),
            queue,
            kind,
            count.outcome.to_string(),
            HumanCount(count.count).to_string(),
        ]
    };
    match counts {
        [] => "nothing ended in that time\n".to_owned(),
        counts => table(
            &["FROM", "QUEUE", "KIND", "OUTCOME", ">COUNT"],
            &counts.iter().map(row).collect::<Vec<_>>(),
        ),
    }
}
