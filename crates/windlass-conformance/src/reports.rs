//! Reports: what handlers say of their jobs is seen while these run, and kept for the next attempt.

use crate::{Fixture, steps::*};
use std::{sync::Arc, time::Duration};
use windlass_core::{
    Args, DeleteReply, Disposition, HandlerReport, JobFilter, JobId, JobReport, JobState, Limits, LogEntry,
    Progress, ReportRequest, Reported, RetryReply, Settings, Settled, Store,
};

fn nothing(held: &Held, number: u64) -> JobReport {
    JobReport {
        claim: held.claim,
        job: held.job.id,
        position: held.job.position,
        attempt: held.job.attempt,
        number,
        progress: None,
        checkpoint: None,
        log: vec![],
        dropped: 0,
    }
}

fn checkpoint(held: &Held, number: u64, value: &str) -> JobReport {
    JobReport { checkpoint: Some(Args::of(value).expect("a text")), ..nothing(held, number) }
}

fn lines(held: &Held, number: u64, texts: impl IntoIterator<Item = String>) -> JobReport {
    let log = texts.into_iter().map(|text| LogEntry { age: Duration::from_millis(100), text }).collect();
    JobReport { log, ..nothing(held, number) }
}

async fn say(worker: &TestWorker, reports: Vec<JobReport>) -> Vec<Reported> {
    let count = reports.len();
    let request = ReportRequest { worker: worker.id, reports };
    let replies = worker.store.report(&request).await.expect("report");
    assert_eq!(replies.len(), count, "one reply per report");
    replies
}

async fn said(store: &Arc<dyn Store>, id: JobId) -> HandlerReport {
    *record(store, id).await.report.expect("something was said")
}

/// The text that is the last checkpoint of a job.
async fn last(store: &Arc<dyn Store>, id: JobId) -> Option<String> {
    let last = store.checkpoints(&[id]).await.expect("checkpoints").pop().expect("one answer per job");
    last.map(|json| serde_json::from_str(json.as_str()).expect("a text"))
}

/// What a handler says is seen while the job runs, and what it does not say again stays.
pub async fn what_is_said_is_seen(fixture: &dyn Fixture) {
    let (store, reader) = (fixture.open().await, fixture.open().await);
    let ids = enqueue_jobs(&store, 2).await;
    let worker = worker_on(&store).await;
    let held = worker.take(2).await;
    assert!(record(&reader, ids[0]).await.report.is_none());
    let json = r#"{"b":1, "a":[1.50,"ä\"é"]}"#;
    let first = JobReport {
        progress: Some(Progress::from((12.5, "page 1 of 8"))),
        checkpoint: Some(Args::parse(json).expect("valid JSON")),
        dropped: 3,
        ..lines(&held[0], 1, ["one".into(), "zwei\nund \"drei\"".into()])
    };
    assert_eq!(say(&worker, vec![first]).await, [Reported::Accepted]);
    let seen = record(&reader, ids[0]).await;
    assert_eq!(seen.state, JobState::Running);
    let report = seen.report.expect("something was said");
    assert_eq!(report.progress, Some(Progress::from((12.5, "page 1 of 8"))));
    assert_eq!(report.checkpoint.as_ref().map(Args::as_str), Some(json));
    assert_eq!((report.attempt, report.log_dropped), (1, 3));
    let texts: Vec<_> = report.log.iter().map(|line| (line.attempt, line.text.as_str())).collect();
    assert_eq!(texts, [(1, "one"), (1, "zwei\nund \"drei\"")]);
    assert!(report.log.iter().all(|line| line.at < report.reported_at), "{report:?}");

    let second = JobReport { progress: Some(Progress::from(99.9)), ..lines(&held[0], 2, ["four".into()]) };
    assert_eq!(say(&worker, vec![second]).await, [Reported::Accepted]);
    let report = said(&reader, ids[0]).await;
    assert_eq!(report.progress, Some(Progress::from(99.9)));
    assert_eq!(report.checkpoint.as_ref().map(Args::as_str), Some(json));
    assert_eq!((report.log.len(), report.log_dropped), (3, 3));

    assert!(record(&reader, ids[1]).await.report.is_none());
    let listed = reader.jobs(&JobFilter::default()).await.expect("list");
    assert!(listed.iter().all(|job| job.report.is_none()), "lists go without");
    let answers = reader.checkpoints(&[ids[1], ids[0], JobId(i64::MAX), ids[0]]).await.expect("checkpoints");
    let answers: Vec<_> = answers.iter().map(|json| json.as_ref().map(Args::as_str)).collect();
    assert_eq!(answers, [None, Some(json), None, Some(json)]);
    assert!(reader.checkpoints(&[]).await.expect("none").is_empty());
}

/// A report that is repeated, because its reply was lost, or that a later one overtook, changes nothing.
pub async fn a_repeated_report_changes_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    let first =
        JobReport { checkpoint: Some(Args::of("1").expect("a text")), ..lines(&held, 1, ["one".into()]) };
    let second = JobReport { dropped: 2, ..checkpoint(&held, 2, "2") };
    for report in [&first, &first, &second, &first, &second] {
        assert_eq!(say(&worker, vec![report.clone()]).await, [Reported::Accepted]);
    }
    let report = said(&store, id).await;
    assert_eq!((report.log.len(), report.log_dropped), (1, 2));
    assert_eq!(last(&store, id).await.as_deref(), Some("2"));
    // The next claim counts from the beginning.
    worker.except(&held, Disposition::Return).await;
    let held = worker.take_one().await;
    let again = JobReport { dropped: 1, ..lines(&held, 1, ["two".into()]) };
    assert_eq!(say(&worker, vec![again]).await, [Reported::Accepted]);
    let report = said(&store, id).await;
    assert_eq!((report.log.len(), report.log_dropped), (2, 3));
}

/// Of a job that is settled, unknown, or of somebody else nothing is taken.
pub async fn who_holds_nothing_says_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 5).await;
    let (worker, other) = (worker_on(&store).await, worker_on(&store).await);
    let held = worker.take(4).await;
    let others = other.take_one().await;
    assert_eq!(worker.complete(&held[0]).await, Settled::Accepted);
    worker.except(&held[1], Disposition::Retry { delay: LATER, error: "no".into() }).await;
    worker.except(&held[2], Disposition::Complete { result: Some(args(1)) }).await;
    let unknown = Held {
        job: windlass_core::ClaimedJob { id: JobId(i64::MAX), ..held[3].job.clone() },
        ..held[3].clone()
    };
    let reports = [&held[0], &held[1], &held[2], &held[3], &others, &unknown];
    let replies = say(&worker, reports.into_iter().map(|held| checkpoint(held, 1, "mine")).collect()).await;
    use Reported::{Accepted, Refused};
    assert_eq!(replies, [Refused, Refused, Refused, Accepted, Refused, Refused]);
    for (nth, id) in ids.iter().enumerate() {
        assert_eq!(last(&store, *id).await.is_some(), nth == 3);
        assert_eq!(record(&store, *id).await.report.is_some(), nth == 3);
    }
    // Another job of the same claim is none of this one's.
    let swapped =
        JobReport { position: held[0].job.position.wrapping_add(1 << 20), ..checkpoint(&held[3], 2, "x") };
    assert_eq!(say(&worker, vec![swapped]).await, [Refused]);
    assert!(say(&worker, vec![]).await.is_empty());
}

/// Once a worker's lease was taken, nothing that it says takes the place of what the next holder says.
pub async fn a_dead_worker_says_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    let held = dying.take_one().await;
    say(&dying, vec![checkpoint(&held, 1, "half")]).await;
    rescue_of(&store, &dying, MAX_CRASHES).await;
    let request = ReportRequest { worker: dying.id, reports: vec![checkpoint(&held, 2, "late")] };
    assert!(store.report(&request).await.expect_err("it is dead").is_lease_lost());
    assert_eq!(last(&store, id).await.as_deref(), Some("half"));
    let next = worker_on(&store).await;
    let again = next.take_one().await;
    assert_eq!(say(&next, vec![checkpoint(&again, 1, "more")]).await, [Reported::Accepted]);
    assert!(store.report(&request).await.expect_err("it is dead").is_lease_lost());
    assert_eq!(last(&store, id).await.as_deref(), Some("more"));
}

/// A checkpoint is there for whoever works the job next, however it came back, and while it waits.
pub async fn a_checkpoint_is_kept(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job().with_max_attempts(3)).await;
    let worker = worker_on(&store).await;
    let ends = [
        Disposition::Retry { delay: Duration::ZERO, error: "no".into() },
        Disposition::Snooze { delay: Duration::ZERO },
        Disposition::Return,
        Disposition::NoHandler,
        Disposition::Undecryptable { delay: Duration::ZERO, error: "no key".into() },
    ];
    let held = worker.take_one().await;
    say(&worker, vec![JobReport { progress: Some(5.0.into()), ..checkpoint(&held, 1, "a") }]).await;
    worker.except(&held, Disposition::Return).await;
    for end in ends {
        let held = worker.take_when_due(1).await.remove(0);
        assert_eq!(last(&store, id).await.as_deref(), Some("a"));
        worker.except(&held, end).await;
        assert_eq!(last(&store, id).await.as_deref(), Some("a"));
    }
    let held = worker.take_when_due(1).await.remove(0);
    say(&worker, vec![checkpoint(&held, 1, "b")]).await;
    worker.except(&held, Disposition::Discard { error: "bad".into(), failed: true }).await;
    assert_eq!(said(&store, id).await.progress, Some(Progress::from(5.0)));
    assert_eq!(store.retry(&[id]).await.expect("retry"), [RetryReply::Retried]);
    worker.take_one().await;
    assert_eq!(last(&store, id).await.as_deref(), Some("b"));
    store.deregister(worker.id).await.expect("deregister");
    assert_eq!(last(&store, id).await.as_deref(), Some("b"));
}

/// Of a long log the newest lines are kept, over all attempts, and how many others there were.
pub async fn the_newest_lines_are_kept(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let mut expected = Vec::new();
    let held = worker.take_one().await;
    for number in 1..=3 {
        let texts: Vec<_> = (0..60).map(|n| format!("{number} {n} ä\"\\")).collect();
        expected.extend(texts.clone());
        say(&worker, vec![lines(&held, number, texts)]).await;
    }
    let texts = async || said(&store, id).await.log.into_iter().map(|line| line.text).collect::<Vec<_>>();
    assert_eq!(texts().await, expected[80..]);
    assert_eq!(said(&store, id).await.log_dropped, 80);
    worker.except(&held, Disposition::Return).await;
    let held = worker.take_one().await;
    let long = "ä".repeat(Limits::MAX_LOG_LINE_BYTES / 2);
    say(&worker, vec![lines(&held, 1, vec![long.clone(); 16])]).await;
    assert_eq!(texts().await, vec![long; 16]);
    say(&worker, vec![lines(&held, 2, ["the last".into()])]).await;
    assert_eq!((texts().await.len(), said(&store, id).await.log_dropped), (16, 181));
}

/// One call for very many jobs.
pub async fn many_jobs_in_one_call(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 1_000).await;
    let worker = worker_on(&store).await;
    let held = worker.take(1_000).await;
    for number in 1..=2 {
        let of = |held: &Held| JobReport {
            progress: Some(Progress::from(number as f64)),
            checkpoint: (number == 1).then(|| Args::of(&held.job.id.to_string()).expect("a text")),
            ..lines(held, number, [number.to_string()])
        };
        // In another order than that of their ids.
        let replies = say(&worker, held.iter().rev().map(of).collect()).await;
        assert!(replies.iter().all(|reply| *reply == Reported::Accepted));
    }
    let last = store.checkpoints(&ids).await.expect("checkpoints");
    for (id, json) in ids.iter().zip(last) {
        assert_eq!(json.expect("a checkpoint").as_str(), format!("\"{id}\""));
    }
    let report = said(&store, ids[500]).await;
    assert_eq!((report.progress, report.log.len()), (Some(Progress::from(2.0)), 2));
}

/// What is too large or makes no sense is refused with what it is, and nothing of the call is stored.
pub async fn what_breaks_a_limit_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 2).await;
    let worker = worker_on(&store).await;
    let held = worker.take(2).await;
    let large = Args::of(&"x".repeat(Limits::MAX_CHECKPOINT_BYTES)).expect("a text");
    let progress = |progress| JobReport { progress: Some(progress), ..nothing(&held[1], 1) };
    for (bad, says) in [
        (JobReport { checkpoint: Some(large), ..nothing(&held[1], 1) }, "the limit is 262144"),
        (progress(Progress::from(101.0)), "got 101"),
        (progress(Progress::from((1.0, "x".repeat(2_000)))), "the limit is 1024"),
        (lines(&held[1], 1, vec![String::new(); 101]), "the limit is 100"),
        (lines(&held[1], 1, ["x".repeat(5_000)]), "longer than 4096"),
    ] {
        let reports = vec![checkpoint(&held[0], 1, "good"), bad];
        let error = store.report(&ReportRequest { worker: worker.id, reports }).await.expect_err("refused");
        assert!(error.is_invalid_input() && error.to_string().contains(says), "{error}");
    }
    assert_eq!((last(&store, ids[0]).await, record(&store, ids[1]).await.report), (None, None));
    // As large as it may be.
    let most = "x".repeat(Limits::MAX_CHECKPOINT_BYTES - 2);
    say(&worker, vec![checkpoint(&held[0], 1, &most)]).await;
    assert_eq!(last(&store, ids[0]).await.map(|text| text.len()), Some(most.len()));
}

/// What was said of a job goes when it is deleted, and with its history; that of others stays.
pub async fn a_report_goes_with_its_job(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 4).await;
    let worker = worker_on(&store).await;
    let held = worker.take(4).await;
    say(&worker, held.iter().map(|held| checkpoint(held, 1, "a")).collect()).await;
    worker.except(&held[0], Disposition::Snooze { delay: LATER }).await;
    worker.except(&held[1], Disposition::Discard { error: "bad".into(), failed: true }).await;
    worker.except(&held[2], Disposition::Snooze { delay: LATER }).await;
    worker.complete(&held[3]).await;
    assert_eq!(store.delete(&[ids[0]]).await.expect("delete"), [DeleteReply::Deleted]);
    assert_eq!(last(&store, ids[0]).await, None);
    let policy = Settings::DEFAULT
        .with_retention(Duration::ZERO)
        .with_dead_retention(Duration::ZERO)
        .with_segment_bytes(1);
    eventually("the jobs are removed", || async {
        maintain_with(&store, policy).await;
        let gone = async |id| store.job(id).await.expect("look up").is_none();
        (gone(ids[1]).await && gone(ids[3]).await).then_some(())
    })
    .await;
    assert_eq!(last(&store, ids[1]).await, None);
    for _ in 0..5 {
        maintain_with(&store, policy).await;
    }
    assert_eq!(last(&store, ids[2]).await.as_deref(), Some("a"));
}

/// Whenever a report arrives that was under way while its job went to another worker, what that one says stands.
pub async fn reports_race_with_settlements(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let late_store = fixture.open().await;
    let (worker, next) = (worker_on(&store).await, worker_on(&store).await);
    for round in 0..100 {
        let id = enqueue(&store, job()).await;
        let held = worker.take_one().await;
        if round % 2 == 0 {
            say(&worker, vec![checkpoint(&held, 1, "early")]).await;
        }
        let request = ReportRequest { worker: worker.id, reports: vec![checkpoint(&held, 2, "late")] };
        let late = {
            let store = Arc::clone(&late_store);
            tokio::spawn(async move { store.report(&request).await })
        };
        worker.except(&held, Disposition::Return).await;
        let again = next.take_one().await;
        assert_eq!(say(&next, vec![checkpoint(&again, 1, "mine")]).await, [Reported::Accepted]);
        late.await.expect("no panic").expect("report");
        assert_eq!(last(&store, id).await.as_deref(), Some("mine"), "round {round}");
        next.complete(&again).await;
    }
}
