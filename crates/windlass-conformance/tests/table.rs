//! The table of `suite!` is whole. Not in the library, which then has no second build for its tests.

use std::{fs, path::Path};

/// A rule that is written but not in the table would never run.
#[test]
fn every_rule_is_in_the_table() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table = include_str!("../src/suite.rs");
    let mut rules = 0;
    for entry in fs::read_dir(sources).expect("sources") {
        let path = entry.expect("source").path();
        let Some(noun) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        if !path.is_file() {
            continue;
        }
        let source = fs::read_to_string(&path).expect("source");
        let after = |line: &str| {
            let name = line.strip_prefix("pub async fn ")?.split_once("(fixture: &dyn Fixture)")?.0;
            Some(name.to_owned())
        };
        let section = table.split(&format!("            {noun}: ")).nth(1).unwrap_or_default();
        let section = section.split(';').next().unwrap_or_default();
        for rule in source.lines().filter_map(after) {
            let listed = section.split([',', '\n']).any(|name| name.trim() == rule);
            assert!(listed, "add {rule} to the table of suite!, under {noun}");
            rules += 1;
        }
    }
    assert!(rules > 80, "found only {rules} rules");
}
