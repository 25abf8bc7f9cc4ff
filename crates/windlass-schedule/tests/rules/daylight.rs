//! Golden tests: what happens where the clock on the wall jumps. The rules are in docs/guide/schedules.md.

use jiff::Timestamp;
use windlass_core::{Args, NewJob, Schedule};
use windlass_schedule::Timing;

fn timing(cron: &str, zone: &str) -> Timing {
    let job = NewJob::new("k", Args::parse("{}").unwrap());
    Timing::of(&Schedule::new("s", cron, job).with_zone(zone)).unwrap()
}

/// The ticks from one instant to another, as the clock of the zone shows them.
fn ticks(cron: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
    let timing = timing(cron, zone);
    let (from, to): (Timestamp, Timestamp) = (from.parse().unwrap(), to.parse().unwrap());
    let shown = |tick| timing.show(tick).strftime("%d %H:%M %z").to_string();
    timing.after(from).take_while(|tick| *tick < to).map(shown).collect()
}

/// Central Europe, 29 March 2026: from 2 to 3 at 01:00 UTC.
fn spring(cron: &str) -> Vec<String> {
    ticks(cron, "Europe/Berlin", "2026-03-28T20:00:00Z", "2026-03-29T04:00:00Z")
}

/// Central Europe, 25 October 2026: from 3 back to 2 at 01:00 UTC.
fn autumn(cron: &str) -> Vec<String> {
    ticks(cron, "Europe/Berlin", "2026-10-24T20:00:00Z", "2026-10-25T04:00:00Z")
}

#[test]
fn a_time_that_is_left_out_ticks_when_the_clock_jumps() {
    assert_eq!(spring("30 2 * * *"), ["29 03:00 +0200"]);
    assert_eq!(spring("0 2 * * *"), ["29 03:00 +0200"]);
    assert_eq!(spring("*/20 2 * * *"), ["29 03:00 +0200"], "several of them: once");
    assert_eq!(spring("30 2,3 * * *"), ["29 03:00 +0200", "29 03:30 +0200"]);
    assert_eq!(spring("0 2,3 * * *"), ["29 03:00 +0200"], "and not twice when 3 ticks as well");
    assert_eq!(
        spring("30 1-4 * * *"),
        ["29 01:30 +0100", "29 03:00 +0200", "29 03:30 +0200", "29 04:30 +0200"]
    );
}

#[test]
fn a_time_that_comes_twice_ticks_the_first_time() {
    assert_eq!(autumn("30 2 * * *"), ["25 02:30 +0200"]);
    assert_eq!(autumn("0,30 2 * * *"), ["25 02:00 +0200", "25 02:30 +0200"]);
    assert_eq!(autumn("0 2,3 * * *"), ["25 02:00 +0200", "25 03:00 +0100"]);
}

#[test]
fn after_the_second_pass_has_begun_the_first_does_not_come_back() {
    let from = "2026-10-25T01:10:00Z"; // 02:10 for the second time
    let to = "2026-10-25T03:00:00Z";
    assert_eq!(ticks("30 2 * * *", "Europe/Berlin", from, to), [""; 0]);
    assert_eq!(ticks("30 2,3 * * *", "Europe/Berlin", from, to), ["25 03:30 +0100"]);
}

#[test]
fn every_hour_is_every_hour_that_the_clock_shows() {
    assert_eq!(
        spring("30 * * * *")[3..],
        ["29 00:30 +0100", "29 01:30 +0100", "29 03:30 +0200", "29 04:30 +0200", "29 05:30 +0200"]
    );
    assert_eq!(
        autumn("30 * * * *")[2..],
        [
            "25 00:30 +0200",
            "25 01:30 +0200",
            "25 02:30 +0200",
            "25 02:30 +0100",
            "25 03:30 +0100",
            "25 04:30 +0100"
        ]
    );
    assert_eq!(spring("0 */2 * * *"), ["28 22:00 +0100", "29 00:00 +0100", "29 04:00 +0200"]);
    assert_eq!(
        autumn("0 */2 * * *"),
        ["25 00:00 +0200", "25 02:00 +0200", "25 02:00 +0100", "25 04:00 +0100"]
    );
}

#[test]
fn short_steps_go_on_without_a_gap() {
    for (cron, seconds) in [("*/15 * * * *", 900), ("*/10 * * * * *", 10), ("* * * * *", 60)] {
        for night in ["2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z"] {
            let ticks: Vec<Timestamp> =
                timing(cron, "Europe/Berlin").after(night.parse().unwrap()).take(1_000).collect();
            let apart = ticks.windows(2).all(|pair| pair[1].duration_since(pair[0]).as_secs() == seconds);
            assert!(apart, "{cron} in the night of {night}");
        }
    }
}

#[test]
fn a_midnight_that_is_left_out_ticks_at_one() {
    // Cuba goes from 0 to 1.
    let night = ticks("@daily", "America/Havana", "2026-03-07T00:00:00Z", "2026-03-10T00:00:00Z");
    assert_eq!(night, ["07 00:00 -0500", "08 01:00 -0400", "09 00:00 -0400"]);
}

#[test]
fn half_an_hour_is_a_jump_as_well() {
    let zone = "Australia/Lord_Howe"; // by half an hour, at 2
    let spring = ticks("15,45 2 * * *", zone, "2026-10-03T14:00:00Z", "2026-10-03T17:00:00Z");
    assert_eq!(spring, ["04 02:30 +1100", "04 02:45 +1100"]);
    let autumn = ticks("*/15 * * * *", zone, "2026-04-04T14:10:00Z", "2026-04-04T15:50:00Z");
    assert_eq!(
        autumn,
        [
            "05 01:15 +1100",
            "05 01:30 +1100",
            "05 01:45 +1100",
            "05 01:30 +1030",
            "05 01:45 +1030",
            "05 02:00 +1030",
            "05 02:15 +1030"
        ]
    );
}

#[test]
fn a_day_that_is_left_out_ticks_when_it_would_have_begun() {
    // Samoa went over the date line: there was no 30 December 2011.
    let ticks = ticks("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2012-01-01T10:00:00Z");
    assert_eq!(ticks, ["29 12:00 -1000", "31 00:00 +1400", "31 12:00 +1400", "01 12:00 +1400"]);
}

#[test]
fn a_zone_that_changes_its_rules_changes_the_ticks() {
    // Brazil had summer time until 2019.
    let zone = "America/Sao_Paulo";
    assert_eq!(
        ticks("0 12 * * *", zone, "2019-02-16T00:00:00Z", "2019-02-18T00:00:00Z"),
        ["16 12:00 -0200", "17 12:00 -0300"]
    );
    assert_eq!(
        ticks("0 12 1 1 *", zone, "2018-06-01T00:00:00Z", "2021-06-01T00:00:00Z"),
        ["01 12:00 -0200", "01 12:00 -0300", "01 12:00 -0300"]
    );
}

#[test]
fn intervals_know_no_clock_on_the_wall() {
    for night in ["2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z"] {
        let ticks: Vec<_> =
            timing("every 1h", "Europe/Berlin").after(night.parse().unwrap()).take(6).collect();
        assert!(ticks.windows(2).all(|pair| pair[1].duration_since(pair[0]).as_hours() == 1));
    }
}
