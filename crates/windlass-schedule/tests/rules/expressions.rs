//! Which expressions there are, what they tick at, and what is said of those that are none.

use jiff::Timestamp;
use proptest::prelude::*;
use windlass_core::{Args, NewJob, Result, Schedule};
use windlass_schedule::Timing;

fn schedule(cron: &str) -> Schedule {
    Schedule::new("s", cron, NewJob::new("k", Args::parse("{}").unwrap()))
}

fn first(cron: &str, count: usize) -> Vec<String> {
    let timing = Timing::of(&schedule(cron)).unwrap();
    let from = "2026-01-01T00:00:00Z".parse().unwrap(); // a Thursday
    timing.after(from).take(count).map(|tick| tick.strftime("%Y-%m-%d %a %T").to_string()).collect()
}

#[test]
fn five_and_six_fields_aliases_and_intervals() {
    for (cron, ticks) in [
        ("5 4 * * *", ["2026-01-01 Thu 04:05:00", "2026-01-02 Fri 04:05:00"]),
        ("  5\t4 *  * *  ", ["2026-01-01 Thu 04:05:00", "2026-01-02 Fri 04:05:00"]),
        ("30 5 4 * * *", ["2026-01-01 Thu 04:05:30", "2026-01-02 Fri 04:05:30"]),
        ("*/20 * * * * *", ["2026-01-01 Thu 00:00:20", "2026-01-01 Thu 00:00:40"]),
        ("@yearly", ["2027-01-01 Fri 00:00:00", "2028-01-01 Sat 00:00:00"]),
        ("@Annually", ["2027-01-01 Fri 00:00:00", "2028-01-01 Sat 00:00:00"]),
        ("@monthly", ["2026-02-01 Sun 00:00:00", "2026-03-01 Sun 00:00:00"]),
        ("@weekly", ["2026-01-04 Sun 00:00:00", "2026-01-11 Sun 00:00:00"]),
        ("@daily", ["2026-01-02 Fri 00:00:00", "2026-01-03 Sat 00:00:00"]),
        ("@midnight", ["2026-01-02 Fri 00:00:00", "2026-01-03 Sat 00:00:00"]),
        ("@hourly", ["2026-01-01 Thu 01:00:00", "2026-01-01 Thu 02:00:00"]),
        ("0 9 * * mon-fri", ["2026-01-01 Thu 09:00:00", "2026-01-02 Fri 09:00:00"]),
        ("0 9 * * 7", ["2026-01-04 Sun 09:00:00", "2026-01-11 Sun 09:00:00"]),
        ("0 9 * * SAT-SUN", ["2026-01-03 Sat 09:00:00", "2026-01-04 Sun 09:00:00"]),
        ("0 0 31 * *", ["2026-01-31 Sat 00:00:00", "2026-03-31 Tue 00:00:00"]),
        ("0 0 29 2 *", ["2028-02-29 Tue 00:00:00", "2032-02-29 Sun 00:00:00"]),
        ("0 0 L * *", ["2026-01-31 Sat 00:00:00", "2026-02-28 Sat 00:00:00"]),
        ("0 0 LW * *", ["2026-01-30 Fri 00:00:00", "2026-02-27 Fri 00:00:00"]),
        ("0 0 15W * *", ["2026-01-15 Thu 00:00:00", "2026-02-16 Mon 00:00:00"]),
        ("0 0 * * 5#2", ["2026-01-09 Fri 00:00:00", "2026-02-13 Fri 00:00:00"]),
        ("0 0 * * FRIL", ["2026-01-30 Fri 00:00:00", "2026-02-27 Fri 00:00:00"]),
        ("0 9 * * 1-0", ["2026-01-01 Thu 09:00:00", "2026-01-02 Fri 09:00:00"]),
        ("0 9 * * 6-0/1,mon", ["2026-01-03 Sat 09:00:00", "2026-01-04 Sun 09:00:00"]),
        ("0 9 * * 0-0", ["2026-01-04 Sun 09:00:00", "2026-01-11 Sun 09:00:00"]),
        ("0 0 13 * ?", ["2026-01-13 Tue 00:00:00", "2026-02-13 Fri 00:00:00"]),
        ("0 0 ? * FRI", ["2026-01-02 Fri 00:00:00", "2026-01-09 Fri 00:00:00"]),
        // Both days are named: either will do, as everywhere.
        ("0 0 13 * FRI", ["2026-01-02 Fri 00:00:00", "2026-01-09 Fri 00:00:00"]),
        ("0 0 1 JAN,jul *", ["2026-07-01 Wed 00:00:00", "2027-01-01 Fri 00:00:00"]),
        ("10-50/20 8 * * *", ["2026-01-01 Thu 08:10:00", "2026-01-01 Thu 08:30:00"]),
        ("every 90s", ["2026-01-01 Thu 00:01:30", "2026-01-01 Thu 00:03:00"]),
        ("every 1d", ["2026-01-02 Fri 00:00:00", "2026-01-03 Sat 00:00:00"]),
        ("every 1w 1d", ["2026-01-03 Sat 00:00:00", "2026-01-11 Sun 00:00:00"]),
        ("EVERY 1h 30m", ["2026-01-01 Thu 01:30:00", "2026-01-01 Thu 03:00:00"]),
    ] {
        assert_eq!(first(cron, 2), ticks, "{cron}");
    }
}

#[test]
fn start_and_end_bound_the_ticks() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let ticks = |schedule: &Schedule, from: &str| {
        let timing = Timing::of(schedule).unwrap();
        timing.after(at(from)).take(9).map(|tick| tick.strftime("%T").to_string()).collect::<Vec<_>>()
    };
    let (start, end) = (at("2026-01-01T00:00:07Z"), at("2026-01-01T00:03:07Z"));
    let interval = schedule("every 60s").with_start(start).with_end(end);
    assert_eq!(ticks(&interval, "2025-01-01T00:00:00Z"), ["00:00:07", "00:01:07", "00:02:07"]);
    assert_eq!(ticks(&interval, "2026-01-01T00:00:07Z"), ["00:01:07", "00:02:07"]);
    let minutes =
        schedule("* * * * *").with_start(at("2026-01-01T00:01:00Z")).with_end(at("2026-01-01T00:03:00Z"));
    assert_eq!(ticks(&minutes, "2025-01-01T00:00:00Z"), ["00:01:00", "00:02:00"]);
}

fn refusal(schedule: &Schedule) -> String {
    let error: Result<Timing> = Timing::of(schedule);
    let error = error.expect_err(schedule.cron());
    assert!(error.is_invalid_input(), "{error}");
    error.to_string()
}

#[test]
fn what_is_no_expression_is_told_which_field_and_what_is_allowed() {
    for (cron, says) in [
        ("", "\"\" has 0 fields; write five"),
        ("* * * *", "has 4 fields"),
        ("* * * * * * *", "has 7 fields"),
        (
            "60 * * * *",
            "the minute field \"60\" is wrong at \"60\": 60 is out of range; allowed are 0 to 59, *",
        ),
        ("61 0 0 * * *", "the second field \"61\""),
        ("0 24 * * *", "the hour field \"24\""),
        ("0 0 0 * *", "the day of month field \"0\""),
        ("0 0 L,5,LW * *", "L and LW do not go together"),
        ("0 0 * 13 *", "allowed are 1 to 12 or JAN to DEC"),
        ("0 0 * FOO *", "\"FOO\" is not a value of this field"),
        ("0 0 * * 8", "allowed are 0 to 7 or SUN to SAT"),
        ("0 0 * * MON-FRY", "the day of week field \"MON-FRY\""),
        ("0 0 * * FRI-MON", "must not run backwards"),
        ("*/0 * * * *", "a step here must be 1 to 59"),
        ("*/60 * * * *", "a step here must be 1 to 59"),
        ("5/10 * * * *", "a step needs a range to step through, as in */10 or 5-59/10"),
        ("1,,2 * * * *", "nothing between its commas"),
        ("1--2 * * * *", "is not a value of this field"),
        ("0 0 1--100000000 * *", "the day of month field"),
        ("99999999999999999999 * * * *", "is not a value of this field"),
        ("-5 * * * *", "is not a value of this field"),
        ("+5 * * * *", "is not a value of this field"),
        ("0 0 * * 5#6", "must be #1 to #5"),
        ("0 0 30 2 *", "never ticks"),
        ("*,5 * * * *", "the minute field \"*,5\" is wrong at \"*\": it stands alone, not in a list"),
        ("* * *,? * *", "the day of month field \"*,?\" is wrong at \"*\": it stands alone"),
        ("0 0 * * 5,?", "the day of week field \"5,?\" is wrong at \"?\": it stands alone"),
        ("*/+5 * * * *", "a step here must be 1 to 59"),
        ("@dayly", "unknown alias \"@dayly\"; known are @yearly"),
        ("@reboot", "unknown alias"),
        ("@daily *", "unknown alias"),
        ("every", "the interval \"\" is not a length of time"),
        ("every day", "is not a length of time"),
        ("every 0s", "is out of range"),
        ("every 1mo", "names months or years, which are of many lengths"),
        ("every 1.5d", "is not a length of time"),
        ("every 400d", "is out of range"),
        ("every 10ms", "is out of range"),
        ("every -1h", "is out of range"),
        ("every 99999h", "is out of range"),
        ("every 1.0001s", "is not in whole milliseconds"),
        ("ü * * * *", "the minute field"),
    ] {
        let said = refusal(&schedule(cron));
        assert!(said.contains(says), "{cron}: {said}");
        assert!(said.starts_with("schedule \"s\": "), "{said}");
    }
    assert!(refusal(&schedule(&"0,".repeat(101))).contains("202 bytes"));
}

/// What the parser would say of it names no field.
#[test]
fn whatever_passes_the_check_is_read() {
    let from = "2026-01-01T00:00:00Z".parse().unwrap();
    for cron in crate::grammar::expressions() {
        match Timing::of(&schedule(&cron)) {
            Ok(timing) => assert!(timing.next_after(from).is_some(), "{cron}"),
            Err(error) => assert!(!error.to_string().contains("is not an expression"), "{error}"),
        }
    }
}

#[test]
fn unknown_zones_are_told_near_names() {
    for (zone, says) in [
        ("Europe/Berlln", "did you mean Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("Mars/Olympus_Mons", "unknown time zone \"Mars/Olympus_Mons\"; use a name of the IANA database"),
        ("", "unknown time zone \"\""),
    ] {
        let said = refusal(&schedule("@daily").with_zone(zone));
        assert!(said.contains(says), "{zone}: {said}");
    }
}

/// Minutes and hours that an expression names, and what the simplest reading of the rules makes of them: look at every minute.
fn by_looking(
    minutes: &[i8],
    hours: Option<&[i8]>,
    zone: &str,
    from: Timestamp,
    count: i64,
) -> Vec<Timestamp> {
    let zone = jiff::tz::TimeZone::get(zone).unwrap();
    let mut shown = std::collections::BTreeSet::new();
    let mut ticks = Vec::new();
    for minute in 0..count {
        let at = from + jiff::SignedDuration::from_mins(minute);
        let (wall, before) =
            (zone.to_datetime(at), zone.to_datetime(at - jiff::SignedDuration::from_mins(1)));
        let matches = |wall: jiff::civil::DateTime| {
            minutes.contains(&wall.minute()) && hours.is_none_or(|hours| hours.contains(&wall.hour()))
        };
        let mut passed = before + jiff::SignedDuration::from_mins(1);
        let mut jumped_over = false;
        while hours.is_some() && passed < wall {
            jumped_over |= matches(passed);
            passed += jiff::SignedDuration::from_mins(1);
        }
        let first_time = hours.is_none() || shown.insert(wall);
        if jumped_over || (matches(wall) && first_time) {
            ticks.push(at);
        }
    }
    ticks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn ticks_are_those_that_looking_at_every_minute_finds(
        minutes in proptest::collection::btree_set(0_i8..60, 1..4),
        hours in proptest::option::of(proptest::collection::btree_set(0_i8..5, 1..4)),
        zone in proptest::sample::select(vec!["Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "UTC"]),
        // Most of them around the days on which one of these clocks jumps.
        days in prop_oneof![0_i64..365, proptest::sample::select(vec![65_i64, 66, 86, 87, 93, 94, 274, 275, 296, 297, 303, 304])],
    ) {
        let list = |set: &std::collections::BTreeSet<i8>| {
            set.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        let cron = format!("{} {} * * *", list(&minutes), hours.as_ref().map_or("*".to_owned(), list));
        let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let from = begin + jiff::SignedDuration::from_hours(24 * days);
        let (minutes, hours): (Vec<_>, Option<Vec<_>>) =
            (minutes.into_iter().collect(), hours.map(|hours| hours.into_iter().collect()));
        let span = 3 * 24 * 60;
        // A day earlier, so that it knows what was shown before.
        let early = from - jiff::SignedDuration::from_hours(24);
        let expected: Vec<_> = by_looking(&minutes, hours.as_deref(), zone, early, 24 * 60 + span)
            .into_iter().filter(|tick| *tick > from).collect();
        let timing = Timing::of(&schedule(&cron).with_zone(zone)).unwrap();
        let end = from + jiff::SignedDuration::from_mins(span);
        let ticks: Vec<_> = timing.after(from).take_while(|tick| *tick < end).collect();
        prop_assert_eq!(ticks, expected, "{} {}", cron, zone);
    }

    #[test]
    fn no_text_is_too_odd(cron in "[-0-9A-Z@#,*/? ]{0,30}", zone in "[A-Za-z/_ ]{0,12}") {
        if let Ok(timing) = Timing::of(&schedule(&cron).with_zone(zone)) {
            timing.next_after(Timestamp::UNIX_EPOCH);
        }
        if let Ok(timing) = Timing::of(&schedule(&cron)) {
            prop_assert!(timing.next_after(Timestamp::UNIX_EPOCH).is_some(), "{} never ticks", cron);
        }
    }
}
