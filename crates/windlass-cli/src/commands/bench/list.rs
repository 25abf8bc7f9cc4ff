use super::scenario::SCENARIOS;
use crate::{cli::Globals, failure::Outcome};
use std::fmt::Write;

/// Lists the scenarios.
#[derive(clap::Args)]
pub(crate) struct List {}

impl List {
    pub(super) fn run(self, globals: &Globals) -> Outcome {
        globals.print(&SCENARIOS, text)
    }
}

fn text() -> String {
    let mut text = String::new();
    for scenario in SCENARIOS {
        let _ = writeln!(text, "{}: {}", scenario.name, scenario.about);
        let _ = writeln!(text, "  published: {}", scenario.seed);
        for point in scenario.points {
            let _ = writeln!(text, "    {:<24} windlass bench {}", point.name, point.line);
        }
        text.push('\n');
    }
    text.push_str("Run some with `windlass bench run NAME...`, all with `windlass bench run all`.\n");
    text
}
