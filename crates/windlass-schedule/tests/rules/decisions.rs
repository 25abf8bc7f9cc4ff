//! What a look at a due schedule leads to.

use jiff::Timestamp;
use std::time::Duration;
use windlass_core::{Args, JobId, Missed, NewJob, Overlap, Schedule, ScheduleRecord, ScheduleStep};
use windlass_schedule::{Decider, Decision, LastJob, jitter};

fn decide(record: &ScheduleRecord, now: Timestamp, last_job: Option<LastJob>) -> Decision {
    Decider::default().decide(record, now, last_job)
}

fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

fn schedule() -> Schedule {
    Schedule::new("s", "* * * * *", NewJob::new("k", Args::parse("{}").unwrap()))
}

/// Decided up to 10:00, and due.
fn record(schedule: &Schedule) -> ScheduleRecord {
    let mut record = ScheduleRecord::new("s".into(), String::new(), schedule.to_json(), 1, at("10:00:00"));
    record.due_at = Some(at("10:00:00"));
    record
}

fn step(record: &ScheduleRecord, now: &str, last: Option<LastJob>) -> ScheduleStep {
    match decide(record, at(now), last) {
        Decision::Step(step) => *step,
        Decision::NeedsLastJob => panic!("asks for the last job"),
    }
}

fn after(record: &ScheduleRecord, step: &ScheduleStep) -> ScheduleRecord {
    let mut record = record.clone();
    (record.decided, record.due_at, record.next_tick) = (step.decided, step.due_at, step.next_tick);
    (record.last_tick, record.queued_tick) = (step.last_tick, step.queued_tick);
    if !step.jobs.is_empty() {
        record.last_job = Some(JobId(1));
    }
    record
}

fn fired(step: &ScheduleStep) -> Vec<String> {
    let tick = |job: &NewJob| {
        let meta = job.attributes().unwrap().meta.as_ref().unwrap();
        meta.as_str().split('T').nth(1).unwrap()[..8].to_owned()
    };
    step.jobs.iter().map(tick).collect()
}

#[test]
fn a_new_schedule_waits_for_its_next_tick() {
    let step = step(&record(&schedule()), "10:00:30", None);
    assert!(step.jobs.is_empty());
    assert_eq!(step.decided, at("10:00:00"));
    assert_eq!((step.next_tick, step.due_at), (Some(at("10:01:00")), Some(at("10:01:00"))));
}

#[test]
fn a_tick_fires_once_and_the_next_is_known() {
    let first = step(&record(&schedule()), "10:01:00", None);
    assert_eq!(fired(&first), ["10:01:00"]);
    assert_eq!((first.decided, first.last_tick), (at("10:01:00"), Some(at("10:01:00"))));
    // A clock that steps back fires nothing again.
    for earlier in ["10:01:00", "10:00:30", "09:00:00"] {
        let again = step(&after(&record(&schedule()), &first), earlier, None);
        assert!(again.jobs.is_empty());
        assert_eq!(again.next_tick, Some(at("10:02:00")), "{earlier}");
    }
}

#[test]
fn missed_ticks_follow_the_policy() {
    for (missed, now, fires) in [
        (Missed::Last, "13:00:30", vec!["13:00:00"]),
        (Missed::None, "10:05:30", vec!["10:05:00"]),
        (Missed::All(3), "13:00:30", vec!["12:58:00", "12:59:00", "13:00:00"]),
        (Missed::All(3), "10:02:00", vec!["10:01:00", "10:02:00"]),
        (Missed::All(3), "10:00:59", vec![]),
    ] {
        let step = step(&record(&schedule().with_missed(missed)), now, None);
        assert_eq!(fired(&step), fires, "{missed:?} at {now}");
        assert!(step.next_tick.is_some_and(|next| next > at(now)));
    }
    let hourly = Schedule::new("s", "@hourly", NewJob::new("k", Args::parse("{}").unwrap()));
    let late = |missed, now| step(&record(&hourly.clone().with_missed(missed)), now, None);
    assert_eq!(fired(&late(Missed::None, "11:01:00")), ["11:00:00"], "late is not missed");
    let passed_over = late(Missed::None, "11:01:01");
    assert!(passed_over.jobs.is_empty());
    assert_eq!(passed_over.decided, at("11:00:00"));
    assert_eq!(fired(&late(Missed::Last, "11:59:00")), ["11:00:00"]);
    assert_eq!(
        fired(&late(Missed::All(1_000), "14:59:00")),
        ["11:00:00", "12:00:00", "13:00:00", "14:00:00"]
    );
}

/// A thousand ticks of a job of a megabyte would be a call that no store answers in time, again and again, and the schedules beside it stood still.
#[test]
fn missed_ticks_of_large_jobs_fire_in_steps() {
    let args = format!("{:?}", "x".repeat(1_000_000));
    let large = Schedule::new("s", "every 1s", NewJob::new("k", Args::parse(&args).unwrap()))
        .with_missed(Missed::All(1_000));
    let mut record = record(&large);
    let (mut all, now) = (Vec::new(), "10:00:30");
    while record.due_at.is_some_and(|due| due <= at(now)) {
        let step = step(&record, now, None);
        let bytes: usize = step.jobs.iter().map(|job| job.args().len()).sum();
        assert!(!step.jobs.is_empty() && bytes <= 4 * 1024 * 1024, "{bytes} bytes");
        all.extend(fired(&step));
        record = after(&record, &step);
    }
    let each: Vec<_> = (1..=30).map(|second| format!("10:00:{second:02}")).collect();
    assert_eq!(all, each);
    assert_eq!(record.last_tick, Some(at(now)));
}

#[test]
fn what_runs_decides_about_overlap() {
    for (overlap, fires, queued) in [
        (Overlap::Allow, vec!["10:01:00"], None),
        (Overlap::Skip, vec![], None),
        (Overlap::QueueOne, vec![], Some(at("10:01:00"))),
    ] {
        let mut record = record(&schedule().with_overlap(overlap));
        record.last_job = Some(JobId(7));
        if overlap != Overlap::Allow {
            assert!(matches!(decide(&record, at("10:01:00"), None), Decision::NeedsLastJob));
        }
        let busy = step(&record, "10:01:00", Some(LastJob::Unfinished));
        assert_eq!(fired(&busy), fires, "{overlap:?}");
        assert_eq!(busy.queued_tick, queued, "{overlap:?}");
        assert_eq!(busy.decided, at("10:01:00"));
        let free = step(&record, "10:01:00", Some(LastJob::Ended));
        assert_eq!(fired(&free), ["10:01:00"]);
    }
}

#[test]
fn one_tick_waits_for_the_end_of_the_job_before() {
    let mut record = record(&schedule().with_overlap(Overlap::QueueOne));
    record.last_job = Some(JobId(7));
    let first = step(&record, "10:01:00", Some(LastJob::Unfinished));
    assert_eq!(first.due_at, Some(at("10:01:01")), "looks again");
    let record = after(&record, &first);
    let second = step(&record, "10:02:00", Some(LastJob::Unfinished));
    assert_eq!((second.queued_tick, second.decided), (Some(at("10:01:00")), at("10:02:00")));
    let record = after(&record, &second);
    let third = step(&record, "10:02:01", Some(LastJob::Ended));
    assert_eq!((fired(&third), third.queued_tick), (vec!["10:01:00".to_owned()], None));
    assert_eq!(third.due_at, Some(at("10:03:00")));
}

#[test]
fn of_missed_ticks_that_must_not_overlap_one_fires() {
    for (overlap, queued) in [(Overlap::Skip, None), (Overlap::QueueOne, Some(at("10:03:00")))] {
        let record = record(&schedule().with_overlap(overlap).with_missed(Missed::All(2)));
        let step = step(&record, "10:03:30", None);
        assert_eq!((fired(&step), step.queued_tick), (vec!["10:02:00".to_owned()], queued));
    }
}

#[test]
fn jitter_delays_each_tick_by_its_own_part() {
    let most = Duration::from_secs(50);
    let schedule = schedule().with_jitter(most);
    let planned = step(&record(&schedule), "10:00:00", None);
    let part = jitter("s", at("10:01:00"), most);
    assert_eq!(planned.next_tick, Some(at("10:01:00")));
    assert_eq!(planned.due_at, Some(at("10:01:00") + jiff::SignedDuration::try_from(part).unwrap()));
    let early = planned.due_at.unwrap() - jiff::SignedDuration::from_micros(1);
    for (now, count) in [(early, 0), (planned.due_at.unwrap(), 1)] {
        let Decision::Step(step) = decide(&record(&schedule), now, None) else { panic!("asks") };
        assert_eq!(step.jobs.len(), count);
    }
    let parts: std::collections::HashSet<_> =
        (0..100).map(|n| jitter("s", at("10:00:00") + jiff::SignedDuration::from_mins(n), most)).collect();
    assert!(parts.len() > 90 && parts.iter().all(|part| *part < most));
}

/// However much it may be, a tick fires before the next one, and none is passed over.
#[test]
fn jitter_keeps_the_ticks_in_order() {
    let schedule = schedule().with_jitter(Duration::from_secs(86_400));
    let mut record = record(&schedule);
    let mut all = Vec::new();
    for _ in 0..100 {
        let before = record.due_at.unwrap();
        let Decision::Step(step) = decide(&record, before, None) else { panic!("asks") };
        all.extend(fired(&step));
        record = after(&record, &step);
        let (tick, due) = (step.next_tick.unwrap(), step.due_at.unwrap());
        assert!(tick <= due && due < tick + jiff::SignedDuration::from_mins(1));
    }
    let minute = |n: u32| format!("{:02}:{:02}:00", 10 + n / 60, n % 60);
    assert_eq!(all, (1..100).map(minute).collect::<Vec<_>>());
}

/// Its ticks of the years since are not walked through, nor are those of the years before.
#[test]
fn a_schedule_that_ended_long_ago_is_decided_at_once() {
    let end: Timestamp = "2035-01-01T00:00:00Z".parse().unwrap();
    let job = NewJob::new("k", Args::parse("{}").unwrap());
    let schedule = Schedule::new("s", "* * * * * *", job).with_end(end);
    let now: Timestamp = "2035-09-01T00:00:00Z".parse().unwrap();
    let Decision::Step(step) = decide(&record(&schedule), now, None) else { panic!("asks") };
    assert_eq!(fired(&step), ["23:59:59"]);
    assert_eq!(step.due_at, None);
}

#[test]
fn an_end_is_the_end() {
    let step = step(&record(&schedule().with_end(at("10:01:30"))), "10:01:00", None);
    assert_eq!((fired(&step).len(), step.next_tick, step.due_at), (1, None, None));
}

#[test]
fn what_cannot_be_read_gets_its_error_and_never_fires() {
    for (definition, says) in [
        (r#"{"cron":"99 * * * *","kind":"k","args":{}}"#, "the minute field"),
        (r#"{"cron":"@daily","zone":"Mars","kind":"k","args":{}}"#, "unknown time zone"),
        (r#"{"cron":"@daily"}"#, "missing field"),
        ("[", "cannot be read"),
    ] {
        let mut record = record(&schedule());
        record.definition = definition.to_owned();
        let step = step(&record, "10:05:00", None);
        assert!(step.error.as_ref().unwrap().contains(says), "{:?}", step.error);
        assert_eq!((step.jobs.len(), step.due_at), (0, None));
    }
}
