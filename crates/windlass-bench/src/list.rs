use crate::scenarios::SCENARIOS;
use std::fmt::Write;
use windlass_cli::{failure::Outcome, globals::Globals};

/// Lists the scenarios.
#[derive(clap::Args)]
pub(crate) struct List {}

impl List {
    pub(crate) fn run(self, globals: &Globals) -> Outcome {
        globals.print(&SCENARIOS, text)
    }
}

fn text() -> String {
    let mut text = String::new();
    for scenario in SCENARIOS {
        let _ = writeln!(text, "{}: {}", scenario.name, scenario.about);
        let _ = writeln!(text, "  published: {}", scenario.seed);
        for point in scenario.points {
            let _ = writeln!(text, "    {:<24} windlass-bench {}", point.name, point.line);
        }
        text.push('\n');
    }
    text.push_str("Run some with `windlass-bench run NAME...`, all with `windlass-bench run all`.\n");
    text
}
