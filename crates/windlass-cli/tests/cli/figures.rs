//! The metrics of a server whose store has a few jobs, and of its worker, and docs/guide/metrics.md.

use crate::{
    program::{Home, eventually},
    serve::Served,
    work_metrics::Watched,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::LazyLock,
};

pub(crate) const GUIDE: &str = "../../docs/guide/metrics.md";

/// A metric, by the name under which it is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    unit: String,
    /// The values that each label has.
    pub(crate) labels: BTreeMap<String, BTreeSet<String>>,
}

/// What `/metrics` of a server and of a worker say of a store in which jobs completed, failed, were discarded and wait.
pub(crate) static FIGURES: LazyLock<BTreeMap<String, Metric>> = LazyLock::new(|| read(&text()));

fn text() -> String {
    let home = Home::new();
    home.enqueue(&["mail.send", "--queue", "mail"]);
    home.enqueue(&["mail.fail", "--queue", "mail", "--max-attempts", "1"]);
    home.enqueue(&["report", "--delay", "1h"]);
    home.run(&["queues", "limit", "mail", "--concurrency", "5"]).done();
    let program = "case $WINDLASS_KIND in *.fail) exit 1;; esac";
    let worker = Watched::start(&home, &["--exec", program, "--queue", "mail"]);
    let counts = |outcome| home.json(&["history", "--outcome", outcome])["counts"].clone();
    eventually("it is counted", || {
        counts("discarded")[0]["count"] == 1 && counts("completed")[0]["count"] == 1
    });
    eventually("it is measured", || {
        home.json(&["timings"])["timed"].as_array().is_some_and(|timed| !timed.is_empty())
    });
    let served = Served::start(&home, &[]);
    assert!(served.get("/api/v1/queues").starts_with("HTTP/1.1 200"));
    let answer = served.get("/metrics");
    [answer, worker.get("/metrics")].map(|answer| open_metrics(&answer)).concat()
}

fn open_metrics(answer: &str) -> String {
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    assert!(text.ends_with("# EOF\n"), "{text}");
    text.to_owned()
}

/// Metrics by name, of OpenMetrics.
fn read(text: &str) -> BTreeMap<String, Metric> {
    let mut families: BTreeMap<String, Metric> = BTreeMap::new();
    let mut metrics = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "TYPE", family, kind] => {
                families.entry(family.to_owned()).or_default().kind = kind.to_owned();
            }
            ["#", "UNIT", family, unit] => {
                families.entry(family.to_owned()).or_default().unit = unit.to_owned();
            }
            ["#", "HELP", _, help] => assert!(help.ends_with('.') && help.len() > 10, "{line}"),
            ["#", ..] => assert_eq!(line, "# EOF"),
            _ => {
                let (name, labels) = sample(line);
                let endings = ["", "_total", "_info", "_bucket", "_sum", "_count"];
                let of = |end: &str| name.strip_suffix(end).filter(|family| families.contains_key(*family));
                // The family of `windlass_store_info` is windlass_store, that of `windlass_store_bytes` is itself.
                let family = endings.iter().find_map(|end| of(end)).unwrap_or_else(|| panic!("{line}"));
                let known = &families[family];
                let shown = if known.kind == "histogram" { family } else { name };
                let metric = metrics.entry(shown.to_owned()).or_insert_with(|| known.clone());
                for (label, value) in labels.into_iter().filter(|(label, _)| *label != "le") {
                    metric.labels.entry(label.to_owned()).or_default().insert(value.to_owned());
                }
            }
        }
    }
    metrics
}

/// The name and the labels of a line; no value here has a quote in it.
fn sample(line: &str) -> (&str, Vec<(&str, &str)>) {
    let (name, _) = line.rsplit_once(' ').unwrap();
    let Some((name, labels)) = name.split_once('{') else { return (name, Vec::new()) };
    let labels = labels.strip_suffix("\"}").unwrap().split("\",");
    (name, labels.map(|label| label.split_once("=\"").unwrap()).collect())
}

/// `| name | type | labels | unit | meaning |`: every metric that there is, and no other.
#[test]
fn the_guide_lists_every_metric() {
    let guide = fs::read_to_string(GUIDE).unwrap();
    let rows = guide.lines().filter(|line| line.starts_with("| `windlass_"));
    let listed: BTreeMap<String, [String; 3]> = rows
        .map(|row| {
            let cells: Vec<_> =
                row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
            assert!(cells.len() == 5 && cells[4].len() > 10, "{row}");
            (cells[0].clone(), [cells[1].clone(), cells[2].clone(), cells[3].clone()])
        })
        .collect();
    let there: BTreeMap<String, [String; 3]> = FIGURES
        .iter()
        .map(|(name, metric)| {
            let labels: Vec<_> = metric.labels.keys().map(String::as_str).collect();
            (name.clone(), [metric.kind.clone(), labels.join(", "), metric.unit.clone()])
        })
        .collect();
    assert_eq!(listed, there);
}
