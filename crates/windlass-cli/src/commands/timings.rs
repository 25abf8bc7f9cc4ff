use crate::{duration, failure::Outcome, globals::Globals, open, table::table, text::escape};
use indicatif::HumanCount;
use std::time::Duration;
use windlass::{Count, Quantiles, Timed, TimingRequest};

/// The options of `timings`.
#[derive(clap::Args)]
pub(crate) struct TimingsOf {
    #[command(flatten)]
    asked: Asked,
    /// How much time one line is of: whole minutes
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "1h")]
    step: Duration,
}

/// Of what time and which jobs.
#[derive(clap::Args)]
pub(crate) struct Asked {
    /// How far back, up to 30days
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "1h", visible_alias = "since")]
    last: Duration,
    /// Only of this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
}

impl Asked {
    pub(crate) fn request(self) -> TimingRequest {
        let mut request = TimingRequest::last(self.last);
        (request.queue, request.kind) = (self.queue, self.kind);
        request
    }
}

impl TimingsOf {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let mut request = self.asked.request();
        request.step = self.step;
        request.check()?;
        let client = open::existing(globals.url()).await?;
        let timings = client.timings(&request).await?;
        client.close().await;
        globals.print(&timings, || text(&timings.timed))
    }
}

/// A queue or kind, or that it is not told apart.
pub(crate) fn name(name: Option<&String>) -> String {
    name.map_or_else(|| Count::ANY.to_owned(), |name| escape(name))
}

fn text(timed: &[Timed]) -> String {
    let row = |timed: &Timed| {
        let (wait, run) = (timed.wait.summary(), timed.run.summary());
        let mut row = vec![timed.at.to_string(), name(timed.queue.as_ref()), name(timed.kind.as_ref())];
        row.push(HumanCount(run.count).to_string());
        row.extend([wait, run].iter().flat_map(|of: &Quantiles| [of.p50_ms, of.p95_ms, of.p99_ms]).map(time));
        row
    };
    match timed {
        [] => "nothing was measured in that time\n".to_owned(),
        timed => table(
            &["FROM", "QUEUE", "KIND", ">ATTEMPTS", ">WAIT P50", ">P95", ">P99", ">RUN P50", ">P95", ">P99"],
            &timed.iter().map(row).collect::<Vec<_>>(),
        ),
    }
}

fn time(ms: Option<f64>) -> String {
    let Some(ms) = ms else { return "-".to_owned() };
    match ms {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1_000.0 => format!("{ms:.0} ms"),
        ms if ms < 100_000.0 => format!("{:.1} s", ms / 1_000.0),
        ms => format!("{:.0} min", ms / 60_000.0),
    }
}
