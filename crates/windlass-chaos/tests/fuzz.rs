//! The checker and the files that it reads, under the fuzz bodies on stable.
#![allow(unreachable_pub)] // the bodies are public to their fuzz targets

#[path = "../../../fuzz/src/broken.rs"]
mod broken;
#[path = "../../../fuzz/src/checker.rs"]
mod checker;
#[path = "../../../fuzz/src/dsn.rs"]
mod dsn;
#[path = "../../../fuzz/src/history.rs"]
mod history;
#[path = "../../../fuzz/src/property.rs"]
mod property;
#[path = "../../../fuzz/src/queue.rs"]
mod queue;

use broken::BREAKS;

/// How often each way of breaking a history must have had a place at least.
const LEAST_BREAKS: u32 = 10;

#[test]
fn any_history_gets_a_verdict() {
    property::check("history", history::WORDS, 1_500, history::body);
}

#[test]
fn valid_histories_pass_and_broken_ones_fail() {
    property::check("checker", &[], 250, checker::body);
}

#[test]
fn every_way_to_break_a_history_is_tried() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut places = vec![0; BREAKS.len()];
    for _ in 0..150 {
        let bytes: Vec<u8> = (0..300)
            .map(|_| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) as u8
            })
            .collect();
        for (place, had) in places.iter_mut().zip(checker::breaks(&bytes)) {
            *place += u32::from(had);
        }
    }
    for ((name, ..), places) in BREAKS.iter().zip(places) {
        println!("{places:>5} {name}");
        assert!(places >= LEAST_BREAKS, "{name}: only {places} places");
    }
}

#[test]
fn no_store_url_shows_its_password() {
    property::check("dsn", dsn::WORDS, 5_000, dsn::body);
}
