use crate::{duration, failure::Outcome, globals::Globals, text::escape};
use serde_json::json;
use std::time::Duration;
use windlass::{Client, QueueLimits, RateLimit};

/// The options of `queues limit`.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["concurrency", "rate"])))]
pub(super) struct Limit {
    /// The queue's name
    queue: String,
    /// How many of its jobs run at once, at most
    #[arg(long, value_name = "JOBS")]
    concurrency: Option<u32>,
    /// How many start in a time, at most, in every window of that length: 100/1m
    #[arg(long, value_name = "JOBS/TIME", value_parser = rate)]
    rate: Option<(u32, Duration)>,
    /// How many of them may start at once; all of them if not said
    #[arg(long, value_name = "JOBS", requires = "rate")]
    burst: Option<u32>,
}

impl Limit {
    pub(super) async fn run(self, globals: &Globals, client: &Client) -> Outcome {
        let mut limits = QueueLimits::default();
        limits.concurrency = self.concurrency;
        limits.rate = self.rate.map(|(count, period)| {
            let mut rate = RateLimit::new(count, period);
            rate.burst = self.burst;
            rate
        });
        set(globals, client, &self.queue, limits).await
    }
}

pub(super) async fn set(globals: &Globals, client: &Client, queue: &str, limits: QueueLimits) -> Outcome {
    globals.did(client, "queues.limit", queue, client.limit(queue, &limits).await).await?;
    let said = match limits.is_none() {
        true => format!("queue {} has no limits now", escape(queue)),
        false => format!("limits of queue {}: {}", escape(queue), text(&limits)),
    };
    globals.print(&json!({ "queue": queue, "limits": limits }), || said)
}

/// The limits of a queue in few words.
pub(super) fn text(limits: &QueueLimits) -> String {
    let concurrency = limits.concurrency.map(|count| format!("{count} at once"));
    let rate = limits.rate.map(|rate| {
        let burst = rate.burst.map_or_else(String::new, |burst| format!(", {burst} at a time"));
        format!("{}{burst}", per_time(&rate))
    });
    let words: Vec<_> = concurrency.into_iter().chain(rate).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

/// As it is written: `100/1m`.
pub(super) fn per_time(rate: &RateLimit) -> String {
    format!("{}/{}", rate.count, humantime::format_duration(rate.period))
}

/// Reads `100/1m`.
pub(super) fn rate(text: &str) -> Result<(u32, Duration), String> {
    let malformed =
        || format!("invalid rate {text:?}: write it as a number of jobs per time, like 100/1m or 5/250ms");
    let (count, period) = text.split_once('/').ok_or_else(malformed)?;
    let count = count.trim().parse().map_err(|_| malformed())?;
    // 100/s is what many write.
    let period = period.trim();
    let period = if period.starts_with(|c: char| c.is_ascii_digit()) {
        period.to_owned()
    } else {
        format!("1{period}")
    };
    Ok((count, duration::parse(&period)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_as_written() {
        assert_eq!(rate("100/1m"), Ok((100, Duration::from_secs(60))));
        assert_eq!(rate("5 / 250ms"), Ok((5, Duration::from_millis(250))));
        assert_eq!(rate("100/s"), Ok((100, Duration::from_secs(1))));
        for nonsense in ["", "5", "/s", "5/", "-1/s", "5.5/s", "5/s/s", "x/1m", "4294967296/s"] {
            assert!(rate(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn limits_are_told_in_few_words() {
        let rate = RateLimit::new(100, Duration::from_secs(60)).with_burst(10);
        assert_eq!(
            text(&QueueLimits::default().with_concurrency(5).with_rate(rate)),
            "5 at once, 100/1m, 10 at a time"
        );
        assert_eq!(text(&QueueLimits::default()), "-");
    }
}
