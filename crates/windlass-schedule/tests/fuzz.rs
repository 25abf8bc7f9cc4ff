//! Expressions under their fuzz body on stable.
#![allow(unreachable_pub)] // the bodies are public to their fuzz targets

#[path = "../../../fuzz/src/cron.rs"]
mod cron;
#[path = "../../../fuzz/src/property.rs"]
mod property;

#[test]
fn expressions_hold_what_they_promise() {
    property::check("cron", cron::WORDS, 300, cron::body);
}
