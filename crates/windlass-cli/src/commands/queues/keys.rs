use super::{
    known,
    limits::{per_time, rate},
};
use crate::{failure::Outcome, globals::Globals, table::table, text::escape};
use indicatif::HumanCount;
use serde_json::{Value, json};
use std::time::Duration;
use windlass::{Client, KeyLimit, KeyLimits, KeyLimitsChange, RateLimit};

/// The options of `queues limit-keys`.
#[derive(clap::Args)]
pub(super) struct LimitKeys {
    /// The queue's name
    queue: String,
    /// How many jobs of a key workers hold at once, at most
    #[arg(long, value_name = "JOBS", conflicts_with = "serial")]
    concurrency: Option<u32>,
    /// The jobs of a key run one after the other, in the order of their ids
    #[arg(long)]
    serial: bool,
    /// How many jobs of a key start in a time, at most, in every window of that length: 100/1m
    #[arg(long, value_name = "JOBS/TIME", value_parser = rate)]
    rate: Option<(u32, Duration)>,
    /// How large a key's share of the queue is while others have jobs too
    #[arg(long, value_name = "1-1000", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(KeyLimit::MAX_WEIGHT)))]
    weight: u16,
    /// Only this key; may be repeated. Without it: every key that has no limit of its own
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
}

/// The options of `queues unlimit-keys`.
#[derive(clap::Args)]
pub(super) struct UnlimitKeys {
    /// The queue's name
    queue: String,
    /// Only this key, which then is as those without a limit of their own; may be repeated
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
}

/// The options of `queues keys`.
#[derive(clap::Args)]
pub(super) struct Keys {
    /// The queue's name
    queue: String,
    /// Only keys with this in them
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Only keys behind this one: the last of the page before
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
    /// The most keys that are shown
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl Keys {
    pub(super) async fn run(self, globals: &Globals, client: &Client) -> Outcome {
        let Self { queue, search, after, limit } = self;
        let Some(mut limits) = client.key_limits(&queue).await? else {
            known(client, &queue).await?;
            return show(globals, &queue, None);
        };
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        let (named, is_more) = limits.page(&search.unwrap_or_default(), after.as_deref(), most);
        let last = named.last().filter(|_| is_more).map(|(key, _)| escape(key));
        let more = last
            .map_or_else(String::new, |last| format!("\nthere are more; continue with --after \"{last}\"\n"));
        limits.named = named.into_iter().map(|(key, limit)| (key.to_owned(), limit)).collect();
        globals.print(&json!({ "queue": queue, "key_limits": limits }), || whole(&limits) + &more)
    }
}

impl LimitKeys {
    pub(super) async fn run(self, globals: &Globals, client: &Client) -> Outcome {
        let mut limit = KeyLimit::default().with_weight(self.weight);
        (limit.concurrency, limit.serial) = (self.concurrency, self.serial);
        limit.rate = self.rate.map(|(count, period)| RateLimit::new(count, period));
        let change = match self.keys.is_empty() {
            true => KeyLimitsChange::Default(limit),
            false => named(self.keys, Some(limit)),
        };
        set(globals, client, &self.queue, change).await
    }
}

impl UnlimitKeys {
    pub(super) async fn run(self, globals: &Globals, client: &Client) -> Outcome {
        let change = if self.keys.is_empty() { KeyLimitsChange::Off } else { named(self.keys, None) };
        set(globals, client, &self.queue, change).await
    }
}

fn named(keys: Vec<String>, limit: Option<KeyLimit>) -> KeyLimitsChange {
    KeyLimitsChange::Named(keys.into_iter().map(|key| (key, limit)).collect())
}

async fn set(globals: &Globals, client: &Client, queue: &str, change: KeyLimitsChange) -> Outcome {
    let done = client.store().limit_keys(queue, &change).await;
    globals.did(client, "queues.limit_keys", queue, done).await?;
    show(globals, queue, client.key_limits(queue).await?.as_ref())
}

/// All limits of the keys of a queue.
pub(super) fn show(globals: &Globals, queue: &str, limits: Option<&KeyLimits>) -> Outcome {
    globals.print(&json!({ "queue": queue, "key_limits": limits }), || match limits {
        None => format!("the keys of queue {} have no limits", escape(queue)),
        Some(limits) => whole(limits),
    })
}

/// One line for each key that has a limit of its own, after one for all others.
fn whole(limits: &KeyLimits) -> String {
    let row = |key: String, limit: &KeyLimit| {
        let at_once =
            limit.at_once().map_or_else(|| "-".to_owned(), |most| HumanCount(most.into()).to_string());
        let order = if limit.serial { "serial" } else { "-" };
        let rate = limit.rate.as_ref().map_or_else(|| "-".to_owned(), per_time);
        vec![key, at_once, rate, order.to_owned(), limit.weight.to_string()]
    };
    let all = row("*".to_owned(), &limits.default);
    // Quoted, so that a key that is called * is told from all of them.
    let named = limits.named.iter().map(|(key, limit)| row(format!("\"{}\"", escape(key)), limit));
    table(
        &["KEY", ">AT ONCE", ">RATE", "ORDER", ">WEIGHT"],
        &[all].into_iter().chain(named).collect::<Vec<_>>(),
    )
}

/// The limits of a queue's keys in few words.
pub(super) fn text(limits: &KeyLimits) -> String {
    let all = &limits.default;
    let at_once = all.concurrency.filter(|_| !all.serial).map(|most| format!("{most} at once"));
    let order = all.serial.then(|| "serial".to_owned());
    let weight = (all.weight != 1).then(|| format!("weight {}", all.weight));
    let named =
        (!limits.named.is_empty()).then(|| format!("{} named", HumanCount(limits.named.len() as u64)));
    let rate = all.rate.as_ref().map(per_time);
    let words: Vec<_> = at_once.into_iter().chain(order).chain(rate).chain(weight).chain(named).collect();
    if words.is_empty() { "fair".to_owned() } else { words.join(", ") }
}

/// The same as JSON: how many keys are named, but not which.
pub(super) fn compact(limits: &KeyLimits) -> Value {
    json!({ "default": limits.default, "named": limits.named.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(default: KeyLimit, named: &[&str]) -> KeyLimits {
        let before = KeyLimitsChange::Default(default).apply(None);
        let named = named.iter().map(|key| ((*key).to_owned(), Some(KeyLimit::serial()))).collect();
        KeyLimitsChange::Named(named).apply(before).expect("limits")
    }

    #[test]
    fn limits_are_told_in_few_words() {
        let any = KeyLimit::default();
        assert_eq!(text(&limits(any, &[])), "fair");
        assert_eq!(text(&limits(any.with_concurrency(5).with_weight(3), &[])), "5 at once, weight 3");
        let serial = KeyLimit::serial().with_concurrency(1);
        assert_eq!(text(&limits(serial, &["a", "b"])), "serial, 2 named");
        let rate = RateLimit::new(100, Duration::from_secs(60));
        assert_eq!(text(&limits(serial.with_rate(rate), &[])), "serial, 100/1m");
    }

    #[test]
    fn limits_are_told_in_full() {
        let shown =
            whole(&limits(KeyLimit::default().with_concurrency(5_000).with_weight(3), &["a\nb", "*"]));
        let lines: Vec<_> = shown.lines().collect();
        assert!(
            lines[1].starts_with("* ") && lines[1].contains("5,000") && lines[1].ends_with('3'),
            "{shown}"
        );
        let rate = KeyLimit::default().with_rate(RateLimit::new(5, Duration::from_millis(250)));
        assert!(whole(&limits(rate, &[])).contains(" 5/250ms "), "{shown}");
        assert!(lines[2].starts_with("\"*\"") && lines[2].contains("serial"), "{shown}");
        assert_eq!(lines.len(), 4, "{shown}");
    }
}
