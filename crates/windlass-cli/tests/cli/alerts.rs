//! deploy/grafana and deploy/prometheus use metrics, labels and values that there are.

use crate::{
    examples::left_out,
    figures::{FIGURES, GUIDE},
    promql::check,
    yaml,
};
use serde_json::Value;
use std::{collections::BTreeSet, fs, process::Command};

const TRIALS: &str = "../../deploy/prometheus/windlass.rules.test.yml";

#[test]
fn the_dashboard_asks_for_metrics_that_are_there() {
    let text = fs::read_to_string("../../deploy/grafana/windlass.json").unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert!(panels.len() > 15 && ids.len() == panels.len());
    let mut asked = text.clone();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let labels = check(target["expr"].as_str().unwrap());
        for shown in target["legendFormat"].as_str().unwrap().split("{{").skip(1) {
            let label = shown.split("}}").next().unwrap();
            assert!(labels.contains(label), "{target}: no metric has a label {label}");
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(query) = variable["definition"].as_str() else { continue };
        let label = query.strip_suffix(')').and_then(|query| query.rsplit(", ").next()).unwrap();
        let metric = query.strip_prefix("label_values(").and_then(|query| query.split(',').next()).unwrap();
        assert!(check(metric).contains(label), "{query}");
        asked = asked.replace(&format!("${}", variable["name"].as_str().unwrap()), "");
    }
    assert!(
        !asked
            .replace("$__rate_interval", "")
            .replace("$__all", "")
            .replace("${datasource}", "")
            .contains('$')
    );
    for name in FIGURES.keys() {
        assert!(text.contains(name.as_str()), "no panel shows {name}");
    }
}

#[test]
fn alerts_ask_for_metrics_that_are_there_and_say_what_to_do() {
    let rules =
        yaml::documents(&fs::read_to_string("../../deploy/prometheus/windlass.rules.yml").unwrap()).remove(0);
    let guide = fs::read_to_string(GUIDE).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    let mut headings: BTreeSet<_> =
        guide.lines().filter_map(|line| line.strip_prefix("### Windlass")).collect();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        let labels = check(rule["expr"].as_str().unwrap());
        assert!(["page", "ticket"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        let annotations = &rule["annotations"];
        for text in ["summary", "description"].map(|text| annotations[text].as_str().unwrap()) {
            assert!(text.len() > 15, "{name}: {text}");
            for used in text.split("$labels.").skip(1) {
                let label: String = used.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
                assert!(labels.contains(&label), "{name}: no label {label}");
            }
        }
        let runbook = format!("docs/guide/metrics.md#{}", name.to_lowercase());
        assert_eq!(annotations["runbook_url"], runbook, "{name}");
        assert!(headings.remove(name.strip_prefix("Windlass").unwrap()), "the guide says nothing of {name}");
    }
    assert!(headings.is_empty(), "the guide has alerts that are not there: {headings:?}");
}

/// `make deps` installs promtool where it is to be had.
#[test]
fn alerts_fire_when_they_should_and_not_otherwise() {
    let text = fs::read_to_string(TRIALS).unwrap();
    let trials = yaml::documents(&text).remove(0);
    let list = |value: &Value, name: &str| value[name].as_array().unwrap().clone();
    for trial in list(&trials, "tests") {
        for series in list(&trial, "input_series") {
            let series = series["series"].as_str().unwrap();
            check(
                &series.replace("instance=\"a\",job=\"windlass\"", "").replace("{,", "{").replace("{}", ""),
            );
        }
    }
    let rules = fs::read_to_string("../../deploy/prometheus/windlass.rules.yml").unwrap();
    for name in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let fires = format!("'ALERTS{{alertname=\"{name}\",alertstate=\"firing\",");
        assert!(text.contains(&fires), "in no trial {name} fires");
    }
    match Command::new("promtool").args(["test", "rules", TRIALS]).output() {
        Err(_) => left_out("trial of the alerts by promtool", "promtool", false),
        Ok(said) => assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr)),
    }
}
