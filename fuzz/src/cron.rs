//! Cron expressions, intervals and zones: one that is none is refused in words that may be shown, and the ticks of the others
//! follow each other, from wherever one looks.

use jiff::{SignedDuration, Timestamp};
use windlass_core::{Args, ErrorKind, Missed, NewJob, Schedule, ScheduleRecord};
use windlass_schedule::{Decider, Decision, LastJob, Timing};

/// The words that generated inputs are made of.
pub const WORDS: &[&str] = &[
    "* ",
    "*/5 ",
    "0 ",
    "30 ",
    "7-50/9 ",
    "2 ",
    "2,3 ",
    "*/2 ",
    "L ",
    "LW ",
    "15W ",
    "29 ",
    "31 ",
    "2 ",
    "FEB ",
    "JAN,jul ",
    "MON-FRI ",
    "5#2 ",
    "FRIL ",
    "7 ",
    "0-6 ",
    "? ",
    "60 ",
    "99999999999999999999 ",
    "5-1 ",
    "*/0 ",
    "1-",
    "/",
    ",",
    "#",
    "@daily ",
    "@never ",
    "every 90s ",
    "every 1h 30m ",
    "every 1000ms ",
    "every ",
    "-1s ",
    "1y ",
    "Europe/Berlin ",
    "America/St_Johns ",
    "Australia/Lord_Howe ",
    "Africa/Casablanca ",
    "Pacific/Apia ",
    "Mars/Base ",
    "Etc/../passwd ",
    "\0",
    "\u{1b}[2J",
    "\u{202e}",
    "ä",
    "\n",
];

/// Where clocks jump, and where time ends.
const INSTANTS: &[&str] = &[
    "1970-01-01T00:00:00Z",
    "2011-12-30T09:59:59Z",
    "2026-01-01T00:00:00Z",
    "2026-03-29T00:30:00.25Z",
    "2026-04-04T14:45:00Z",
    "2026-10-25T00:10:00Z",
    "9998-12-30T23:59:00Z",
];

/// The most ticks that are looked at from one instant.
const TICKS: usize = 4;
/// How far behind a schedule is decided, in seconds.
const BEHIND: [i64; 4] = [0, 59, 7_200, 400 * 86_400];

/// Takes the text, and its first words, as expressions.
pub fn body(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let is_zone = |word: &&str| word.contains('/') && word.starts_with(|c: char| c.is_ascii_alphabetic());
    let (zones, words): (Vec<&str>, Vec<&str>) = text.split_whitespace().partition(is_zone);
    let zone = zones.first().copied().unwrap_or("UTC");
    look(&text, zone);
    for fields in [5, 6].into_iter().filter(|fields| words.len() >= *fields) {
        look(&words[..fields].join(" "), zone);
    }
    look(words.first().copied().unwrap_or_default(), zone);
}

fn look(cron: &str, zone: &str) {
    let job = NewJob::new("k", Args::parse("{}").expect("args"));
    let schedule = Schedule::new("s", cron, job).with_zone(zone).with_missed(Missed::All(5));
    match Timing::of(&schedule) {
        Ok(timing) => {
            for instant in INSTANTS {
                let from: Timestamp = instant.parse().expect("an instant");
                follow(&timing, from);
                decide(&schedule, from);
            }
            assert!(timing.next_after(Timestamp::MAX).is_none());
        }
        Err(error) => {
            let message = error.to_string();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{message}");
            assert!(message.contains("schedule \"s\""), "{message}");
            // Expressions come from strangers: what repeats them neither steers a terminal nor floods a log.
            assert!(!message.contains(|c: char| c.is_control()), "{message:?}");
            assert!(message.len() < 2_000, "{message}");
        }
    }
}

/// Each tick is the next one from everywhere between it and the one before.
fn follow(timing: &Timing, from: Timestamp) {
    let mut before = from;
    for tick in timing.after(from).take(TICKS) {
        assert!(tick > before, "{tick} is not after {before}");
        let between = tick.duration_since(before) / 2;
        for earlier in [SignedDuration::from_micros(1), between] {
            let asked = tick.checked_sub(earlier).expect("an instant").max(before);
            assert_eq!(timing.next_after(asked), Some(tick), "after {asked}");
        }
        before = tick;
    }
}

/// What is decided never goes back nor beyond now, and what fires is decided, once.
fn decide(schedule: &Schedule, now: Timestamp) {
    for behind in BEHIND {
        let Ok(decided) = now.checked_sub(SignedDuration::from_secs(behind)) else { continue };
        let mut record = ScheduleRecord::new("s".into(), String::new(), schedule.to_json(), 1, decided);
        record.due_at = Some(decided);
        let mut decider = Decider::default();
        let Decision::Step(step) = decider.decide(&record, now, Some(LastJob::Ended)) else {
            panic!("asks twice for the last job");
        };
        assert!(step.error.is_none(), "{:?}", step.error);
        assert!(decided <= step.decided && step.decided <= now, "{decided} {} {now}", step.decided);
        assert!(step.jobs.len() <= 5);
        assert_eq!(step.jobs.is_empty(), step.decided == decided, "what is decided fired");
        assert!(step.next_tick.is_none_or(|next| next > now), "{:?} {now}", step.next_tick);
        (record.decided, record.due_at) = (step.decided, Some(now));
        let Decision::Step(again) = decider.decide(&record, now, Some(LastJob::Ended)) else {
            panic!("asks twice for the last job");
        };
        assert!(again.jobs.is_empty(), "fires twice");
    }
}
