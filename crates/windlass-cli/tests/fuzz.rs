//! The lines of `enqueue --many`, and files of schedules, under their fuzz bodies on stable.
#![allow(unreachable_pub)] // the bodies are public to their fuzz targets

#[path = "../../../fuzz/src/lines.rs"]
mod lines;
#[path = "../../../fuzz/src/property.rs"]
mod property;
#[path = "../../../fuzz/src/schedule_file.rs"]
mod schedule_file;

#[test]
fn lines_hold_what_they_promise() {
    property::check("lines", lines::WORDS, 2_000, lines::body);
}

#[test]
fn files_of_schedules_are_read_or_refused_by_line() {
    property::check("schedule_file", schedule_file::WORDS, 2_000, schedule_file::body);
}
