//! Checks expressions of Prometheus against the metrics that there are.

use crate::figures::FIGURES;
use std::collections::BTreeSet;

const FUNCTIONS: [&str; 13] = [
    "absent",
    "count",
    "deriv",
    "histogram_quantile",
    "increase",
    "label_values",
    "max",
    "min",
    "predict_linear",
    "rate",
    "sum",
    "topk",
    "avg",
];
const WORDS: [&str; 3] = ["and", "or", "unless"];
const LISTS: [&str; 5] = ["by", "without", "on", "ignoring", "group_left"];
/// Labels that Prometheus adds.
const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

/// The names, texts and signs of an expression; what stands in `[ ]` is one.
fn tokens(expr: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = expr.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '$');
        let end = match first {
            '"' => rest[1..].find('"').expect("a closing quote") + 2,
            '[' => rest.find(']').expect("a closing bracket") + 1,
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            '=' | '!' | '>' | '<' if rest[1..].starts_with(['=', '~']) => 2,
            _ => first.len_utf8(),
        };
        tokens.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    tokens
}

/// Checks an expression, and gives the labels that its metrics have.
pub(crate) fn check(expr: &str) -> BTreeSet<String> {
    let tokens = tokens(expr);
    let mut known: BTreeSet<String> = OF_PROMETHEUS.map(str::to_owned).into();
    let (mut lists, mut metrics, mut depth) = (Vec::new(), 0, 0);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let next = tokens.get(at + 1).map_or("", String::as_str);
        at += 1;
        match token.as_str() {
            "(" => depth += 1,
            ")" => depth -= 1,
            word if LISTS.contains(&word) => {
                let end = at + tokens[at..].iter().position(|token| token == ")").expect(expr);
                lists.extend(tokens[at + 1..end].iter().filter(|token| *token != ","));
                at = end + 1;
            }
            word if WORDS.contains(&word) => {}
            word if word.starts_with('[') => {
                let range = word.trim_matches(['[', ']']);
                let is_time = range.strip_suffix('m').is_some_and(|digits| digits.parse::<u32>().is_ok());
                assert!(is_time || range == "$__rate_interval", "{expr}: {range}");
            }
            word if word.starts_with(|c: char| c.is_ascii_alphabetic()) && next == "(" => {
                assert!(FUNCTIONS.contains(&word), "{expr}: no function {word}");
            }
            word if FUNCTIONS.contains(&word) && LISTS.contains(&next) => {}
            name if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                metrics += 1;
                let end = match next {
                    "{" => at + tokens[at..].iter().position(|token| token == "}").expect(expr) + 1,
                    _ => at,
                };
                known.extend(check_metric(name, &tokens[at..end], expr));
                at = end;
            }
            _ => {}
        }
    }
    assert!(metrics > 0 && depth == 0, "{expr}");
    for label in lists {
        assert!(known.contains(label), "{expr}: no metric has a label {label}");
    }
    known
}

/// Checks a metric's name and `{label="value", …}`, and gives its labels.
fn check_metric(name: &str, matchers: &[String], expr: &str) -> Vec<String> {
    if name == "up" {
        return Vec::new();
    }
    let of_histogram = |end| {
        name.strip_suffix(end)
            .and_then(|family| FIGURES.get(family))
            .filter(|metric| metric.kind == "histogram")
    };
    let found = FIGURES.get(name).filter(|metric| metric.kind != "histogram");
    let metric = found.or_else(|| ["_bucket", "_sum", "_count"].into_iter().find_map(of_histogram));
    let metric = metric.unwrap_or_else(|| panic!("{expr}: no metric {name}"));
    for matcher in matchers.iter().skip(1).collect::<Vec<_>>().chunks(4).filter(|matcher| matcher.len() > 2) {
        let (label, value) = (matcher[0], matcher[2].trim_matches('"'));
        let values =
            metric.labels.get(label).unwrap_or_else(|| panic!("{expr}: {name} has no label {label}"));
        // No request failed in this store.
        let is_there = |value: &str| values.contains(value) || value == "5xx";
        assert!(
            value.starts_with('$') || value.split('|').all(is_there),
            "{expr}: {label} is one of {values:?}"
        );
    }
    let of_buckets = name.ends_with("_bucket").then(|| "le".to_owned());
    metric.labels.keys().cloned().chain(of_buckets).collect()
}

#[test]
fn expressions_that_are_wrong_are_found() {
    for expr in [
        "windlass_nothing",
        "windlass_workers{queue=\"mail\"}",
        "windlass_workers{state=\"asleep\"}",
        "sum by (kind) (windlass_workers)",
        "rat(windlass_workers[5m])",
        "windlass_http_request_seconds",
        "max(windlass_workers",
        "1 > 2",
    ] {
        assert!(std::panic::catch_unwind(|| check(expr)).is_err(), "{expr}");
    }
}
