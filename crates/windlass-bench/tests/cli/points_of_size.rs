//! What the reports of the scenario `size` have to tell, on every store.

use serde_json::Value;

/// What every point tells.
const FIGURES: [&str; 7] = [
    "completed_per_second",
    "alone_per_second",
    "percent_of_alone",
    "peak_memory_bytes",
    "burdened_bytes",
    "drained_bytes",
    "after_retention_bytes",
];
const BARS: [&str; 4] = ["slowest_claim_or_settle", "drain", "size_after_retention", "memory"];

/// Checks the reports of a run of all points. Times are not judged here: that is for who reads the report.
pub(crate) fn check_points(summary: &Value) {
    let points = summary["points"].as_array().expect("points");
    assert_eq!((points.len(), &summary["done"]), (9, &9.into()), "{summary}");
    for point in points {
        let figures = &point["report"]["figures"];
        for figure in FIGURES {
            assert!(figures[figure].is_number(), "{figure} is missing in {point}");
        }
        for bar in BARS {
            assert!(figures["bars"][bar]["met"].is_boolean(), "{bar} is missing in {point}");
        }
        for phase in ["draining", "draining_alone", "steady", "steady_alone"] {
            for call in ["claim", "settle"] {
                assert!(figures[phase][call]["samples"].as_u64() > Some(0), "{phase} {call} in {point}");
            }
        }
        // The jobs of the rounds are gone, those of the burden are not.
        let bytes = |name: &str| figures[name].as_u64().unwrap();
        assert!(bytes("drained_bytes") > bytes("burdened_bytes"), "{point}");
        assert_eq!(figures["bars"]["size_after_retention"]["met"], true, "{point}");
        // Whoever emptied the log: the workers of the rounds keep house, too.
        assert!(bytes("after_retention_bytes") < bytes("drained_bytes"), "{point}");
    }
    let large = points.iter().find(|point| point["report"]["settings"]["burden"] == "bytes").expect("bytes");
    let figures = &large["report"]["figures"];
    assert!(figures["drain_of_burden"]["per_second"].as_u64() > Some(0), "{large}");
    let args = large["report"]["settings"]["amount"].as_u64().unwrap() * ((1 << 20) - 100);
    assert!(figures["burdened_bytes"].as_u64() > Some(args), "{large}");
}
