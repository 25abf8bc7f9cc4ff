use crate::{
    finding::Finding,
    measure::{Machine, ServerGauge},
    store::durability,
    worker_settings::Settling,
};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write;
use windlass::redact_url;
use windlass_cli::{failure::Outcome, globals::Globals, measure::MeasuredStore, open, text::escape};

/// How many entries of a series are printed at most.
const SHOWN: usize = 60;

/// A finding, with everything that is needed to repeat and to judge it.
#[derive(Serialize)]
pub(crate) struct Report {
    bench: &'static str,
    command: String,
    windlass: String,
    commit: Option<&'static str>,
    store: String,
    place: String,
    durability: String,
    settling: Option<Settling>,
    machine: Machine,
    server: Option<Map<String, Value>>,
    settings: Map<String, Value>,
    figures: Map<String, Value>,
}

impl Report {
    pub(crate) async fn new(finding: Finding, store: &MeasuredStore, globals: &Globals) -> Outcome<Self> {
        let Finding { bench, settling, settings, figures } = finding;
        let client = open::create(&store.url).await?;
        let product = client.status().await?.store;
        client.close().await;
        let gauge = ServerGauge::open(&store.url).await;
        Ok(Self {
            bench,
            command: command(std::env::args(), globals),
            windlass: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("WINDLASS_COMMIT"),
            store: product,
            place: store.name(),
            durability: durability(store, &gauge).await,
            settling,
            machine: Machine::look(),
            server: gauge.settings().await,
            settings,
            figures,
        })
    }

    pub(crate) fn text(&self) -> String {
        let settling =
            self.settling.map_or("none worked".to_owned(), |settling| format!("{settling:?}").to_lowercase());
        let commit = self.commit.map_or(String::new(), |commit| format!(" at {commit}"));
        let mut text = format!("bench {}: {}\n\n", self.bench, escape(&self.command));
        line(&mut text, "windlass", &format!("{}{commit}", self.windlass));
        line(&mut text, "store", &escape(&format!("{} in {}", self.store, self.place)));
        line(&mut text, "durability", &escape(&self.durability));
        line(&mut text, "settling", &settling);
        line(&mut text, "machine", &self.machine.text());
        if let Some(server) = &self.server {
            let pairs: Vec<_> =
                server.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
            for (at, some) in pairs.chunks(4).enumerate() {
                line(&mut text, if at == 0 { "server" } else { "" }, &some.join(" "));
            }
        }
        for part in [&self.settings, &self.figures] {
            text.push('\n');
            lines(&mut text, "", part);
        }
        text
    }
}

/// The command line that repeats a measurement: without passwords, and with the store that the environment
/// named.
pub(crate) fn command(args: impl Iterator<Item = String>, globals: &Globals) -> String {
    let mut words = vec!["windlass-bench".to_owned()];
    let shown = |word: String| if word.contains(':') { redact_url(&word) } else { word };
    words.extend(args.skip(1).filter(|word| word != "--json").map(shown));
    if let Some(store) = &globals.store
        && !words.iter().any(|word| word == "--store" || word.starts_with("--store="))
    {
        words.extend(["--store".to_owned(), redact_url(store)]);
    }
    words.join(" ")
}

fn lines(text: &mut String, prefix: &str, part: &Map<String, Value>) {
    for (name, value) in part {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(times) if times.contains_key("p50_us") => line(text, &name, &distribution(times)),
            Value::Object(inner) => lines(text, &format!("{name}."), inner),
            Value::Array(series) if series.is_empty() => {}
            Value::Array(series) => line(text, &name, &shown(series)),
            Value::Number(number) if name.ends_with("_bytes") => {
                line(text, &name, &HumanBytes(number.as_u64().unwrap_or(0)).to_string());
            }
            Value::Null => {}
            other => line(text, &name, &plain(other)),
        }
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<46} {value}");
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(string) => escape(string),
        Value::Number(number) => match number.as_u64() {
            Some(count) => HumanCount(count).to_string(),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// The figures of a distribution in milliseconds.
fn distribution(times: &Map<String, Value>) -> String {
    let ms = |name: &str| times.get(name).and_then(Value::as_f64).unwrap_or(0.0) / 1e3;
    let names = [("average", "average_us"), ("p50", "p50_us"), ("p90", "p90_us"), ("p95", "p95_us")];
    let more = [("p99", "p99_us"), ("p99.9", "p999_us"), ("max", "max_us")];
    let parts = names.iter().chain(&more).map(|(shown, name)| format!("{shown} {:.2}", ms(name)));
    format!(
        "{} ms ({} samples)",
        parts.collect::<Vec<_>>().join(", "),
        times.get("samples").map_or(String::new(), plain)
    )
}

/// A series, in thousands when its numbers are that large.
fn shown(series: &[Value]) -> String {
    let large = series.iter().filter_map(Value::as_u64).any(|number| number >= 10_000);
    let short = |number: &Value| match number.as_u64() {
        Some(number) if large => format!("{}k", number / 1000),
        _ => plain(number),
    };
    let mut words: Vec<_> = series.iter().take(SHOWN).map(short).collect();
    if series.len() > SHOWN {
        words.push(format!("and {} more", series.len() - SHOWN));
    }
    words.join(" ")
}
