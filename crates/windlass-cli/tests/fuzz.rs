//! The lines of `enqueue --many` under their fuzz body on stable.
#![allow(unreachable_pub)] // the bodies are public to their fuzz targets

#[path = "../../../fuzz/src/lines.rs"]
mod lines;
#[path = "../../../fuzz/src/property.rs"]
mod property;

#[test]
fn lines_hold_what_they_promise() {
    property::check("lines", lines::WORDS, 2_000, lines::body);
}
