use crate::{
    failure::Outcome,
    measure::{WalGauge, cpu_seconds, peak_memory},
    text::{escape, grouped},
    trial::Place,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use windlass::Client;

/// What a bench found, with all that is needed to repeat it.
#[derive(Serialize)]
pub(super) struct Report {
    bench: &'static str,
    store: String,
    place: String,
    durability: String,
    settings: Map<String, Value>,
    figures: Map<String, Value>,
}

/// Where the counters of the system stood when a measurement began.
pub(super) struct Baseline {
    wal: WalGauge,
    wal_bytes: Option<u64>,
    cpu_seconds: Option<f64>,
}

impl Baseline {
    pub(super) async fn take(place: &Place) -> Self {
        let wal = WalGauge::open(&place.url).await;
        let wal_bytes = wal.bytes().await;
        Self { wal, wal_bytes, cpu_seconds: cpu_seconds() }
    }

    /// What the system spent on `jobs` jobs until now. What it or the store does not tell is left out.
    pub(super) async fn spent(self, jobs: u64) -> Spent {
        let wal_bytes = self.wal.bytes().await.zip(self.wal_bytes).map(|(now, then)| now - then);
        let per_job = wal_bytes.map(|bytes| round(bytes as f64 / jobs.max(1) as f64));
        let cpu = cpu_seconds().zip(self.cpu_seconds).map(|(now, then)| round(now - then));
        let figures = [
            ("wal_bytes_per_job", per_job.map(Value::from)),
            ("cpu_seconds", cpu.map(Value::from)),
            ("peak_memory_bytes", peak_memory().map(Value::from)),
        ];
        let known = figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Spent { wal: self.wal, figures: known.collect() }
    }
}

/// What a measurement took of the system.
pub(super) struct Spent {
    wal: WalGauge,
    figures: Map<String, Value>,
}

impl Spent {
    /// The whole report of a bench.
    pub(super) async fn report(
        self,
        bench: &'static str,
        (client, place): (&Client, &Place),
        (settings, figures): (Value, Value),
    ) -> Outcome<Report> {
        let (store, durability) = (client.status().await?.store, place.durability(&self.wal).await);
        client.close().await;
        let (settings, mut figures) = (object(settings), object(figures));
        figures.extend(self.figures);
        Ok(Report { bench, store, place: place.name(), durability, settings, figures })
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => [("value".to_owned(), other)].into_iter().collect(),
    }
}

/// Three digits after the point.
pub(super) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

impl Report {
    pub(super) fn text(&self) -> String {
        let head = json!({ "store": self.store, "place": self.place, "durability": self.durability });
        let mut text = format!("bench {}\n", self.bench);
        for part in [&object(head), &self.settings, &self.figures] {
            text.push('\n');
            lines(&mut text, "", part);
        }
        text
    }
}

fn lines(text: &mut String, prefix: &str, part: &Map<String, Value>) {
    for (name, value) in part {
        let shown = match value {
            Value::Object(inner) => {
                lines(text, &format!("{prefix}{name}."), inner);
                continue;
            }
            Value::String(string) => escape(string),
            Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), grouped),
            other => other.to_string(),
        };
        let _ = writeln!(text, "  {:<28}{shown}", format!("{prefix}{name}"));
    }
}
