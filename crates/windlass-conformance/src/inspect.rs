//! Inspection: operators see each job, queue and worker as it is.

use crate::{Fixture, steps::*};
use std::{sync::Arc, time::Duration};
use windlass_core::{
    Args, AuditFilter, Disposition, Error, ErrorKind, EventRequest, HistoryRequest, JobFilter, JobId,
    JobPage, JobState, NewJob, PageToken, QueueFilter, ScheduleFilter, Store, StoreStatus, TimingRequest,
};

/// Makes one job in each state that a job can be in, and returns them with it, in the order of lists.
async fn one_of_each(store: &Arc<dyn Store>) -> Vec<(JobId, JobState)> {
    let worker = worker_on(store).await;
    enqueue_jobs(store, 5).await;
    let jobs = worker.take(5).await;
    let exceptions = vec![
        jobs[1].exception(Disposition::Retry { delay: LATER, error: "no".into() }),
        jobs[2].exception(Disposition::Discard { error: "bad".into(), failed: true }),
        jobs[3].exception(Disposition::Cancel { reason: "unwanted".into() }),
    ];
    worker.settle(vec![jobs[0].completion()], exceptions).await;
    let scheduled = enqueue(store, job().with_delay(LATER)).await;
    let available = enqueue(store, job()).await;
    vec![
        (jobs[4].job.id, JobState::Running),
        (available, JobState::Available),
        (jobs[1].job.id, JobState::Retryable),
        (scheduled, JobState::Scheduled),
        (jobs[2].job.id, JobState::Discarded),
        (jobs[3].job.id, JobState::Cancelled),
        (jobs[0].job.id, JobState::Completed),
    ]
}

/// Follows the pages of a filter to their end, each of which must hold no more than asked for.
async fn pages(store: &Arc<dyn Store>, mut filter: JobFilter) -> Vec<JobPage> {
    let mut pages = Vec::new();
    loop {
        let page = store.jobs(&filter).await.expect("list");
        assert!(page.len() <= filter.limit as usize);
        filter.after.clone_from(&page.next);
        pages.push(page);
        if filter.after.is_none() {
            return pages;
        }
    }
}

async fn list(store: &Arc<dyn Store>, filter: JobFilter) -> Vec<JobId> {
    store.jobs(&filter).await.expect("list").iter().map(|job| job.id).collect()
}

/// Every job is listed in its state, state by state, and looked up in the same state.
pub async fn each_job_in_its_state(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let jobs = one_of_each(&store).await;
    let listed = store.jobs(&JobFilter::default()).await.expect("list");
    let seen: Vec<_> = listed.iter().map(|job| (job.id, job.state)).collect();
    assert_eq!(seen, jobs);
    for (id, expected) in jobs {
        assert_eq!(state(&store, id).await, expected);
    }
    assert!(store.job(JobId(i64::MAX)).await.expect("look up").is_none());
    assert!(store.job(JobId(-1)).await.expect("look up").is_none());
}

/// A filter by state lists the jobs in it and no others.
pub async fn a_state_filter_lists_that_state(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let jobs = one_of_each(&store).await;
    for wanted in JobState::ALL {
        let filter = JobFilter { state: Some(wanted), ..JobFilter::default() };
        let expected: Vec<_> = jobs.iter().filter(|job| job.1 == wanted).map(|job| job.0).collect();
        assert_eq!(list(&store, filter).await, expected, "{wanted}");
    }
}

/// Filters by queue and kind narrow the list, together too; unknown names list nothing.
pub async fn filters_narrow(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let of = |kind: &'static str, queue: &'static str| NewJob::new(kind, args(0)).with_queue(queue);
    let batch = [of("a", "x"), of("b", "x"), of("a", "y"), of("b", "y").with_delay(LATER)];
    let ids = store.enqueue(&batch).await.expect("enqueue");
    let filter = |kind: Option<&str>, queue: Option<&str>| JobFilter {
        kind: kind.map(str::to_owned),
        queue: queue.map(str::to_owned),
        ..JobFilter::default()
    };
    assert_eq!(list(&store, filter(Some("a"), None)).await, [ids[0], ids[2]]);
    assert_eq!(list(&store, filter(None, Some("y"))).await, [ids[2], ids[3]]);
    assert_eq!(list(&store, filter(Some("b"), Some("y"))).await, [ids[3]]);
    assert!(list(&store, filter(Some("c"), None)).await.is_empty());
    assert!(list(&store, filter(None, Some("z"))).await.is_empty());
    let both = JobFilter { state: Some(JobState::Available), ..filter(Some("b"), None) };
    assert_eq!(list(&store, both).await, [ids[1]]);
}

/// A filter by tag lists the jobs that have it, in each state, together with other filters; a page is bounded as ever.
pub async fn a_tag_finds_its_jobs(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let of = |tags: &[&'static str]| job().with_tags(tags.iter().copied());
    let batch = [of(&["a"]), of(&["b", "a"]), job(), of(&["ab"]), of(&["a"]).with_delay(LATER), of(&["a"])];
    let ids = store.enqueue(&batch).await.expect("enqueue");
    let filter = |tag: &str| JobFilter { tag: Some(tag.to_owned()), ..JobFilter::default() };
    assert_eq!(list(&store, filter("a")).await, [ids[5], ids[1], ids[0], ids[4]]);
    assert_eq!(list(&store, filter("b")).await, [ids[1]]);
    assert!(list(&store, filter("c")).await.is_empty());
    let scheduled = JobFilter { state: Some(JobState::Scheduled), ..filter("a") };
    assert_eq!(list(&store, scheduled).await, [ids[4]]);
    let worker = worker_on(&store).await;
    for held in worker.take(5).await {
        match held.job.id {
            id if id == ids[0] => worker.complete(&held).await,
            id if id == ids[1] => worker.except(&held, Disposition::Cancel { reason: "no".into() }).await,
            _ => continue,
        };
    }
    assert_eq!(list(&store, filter("a")).await, [ids[5], ids[4], ids[1], ids[0]]);
    let pages = pages(&store, JobFilter { limit: 1, ..filter("a") }).await;
    let seen: Vec<_> = pages.iter().flat_map(|page| page.iter().map(|job| job.id)).collect();
    assert_eq!(seen, [ids[5], ids[4], ids[1], ids[0]]);
}

/// A filter by error looks at the last one: the reason of discarded jobs, of others that of the attempt that failed last. The case of letters of ASCII
/// does not matter; nothing in the text is a pattern.
pub async fn an_error_finds_its_jobs(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let ids = enqueue_jobs(&store, 6).await;
    let retry = |error: &str| Disposition::Retry { delay: Duration::ZERO, error: error.into() };
    let discard = |error: &str, failed| Disposition::Discard { error: error.into(), failed };
    let held = worker.take(6).await;
    let first = [
        retry("HTTP 503 from a_b%c"),
        retry("timed out"),
        discard("http 503, for good", true),
        discard("no such ADDRESS", false),
        Disposition::Cancel { reason: "HTTP 503".into() },
    ];
    let exceptions = held.iter().zip(first).map(|(held, how)| held.exception(how)).collect();
    worker.settle(vec![held[5].completion()], exceptions).await;
    let filter = |error: &str| JobFilter { error: Some(error.to_owned()), ..JobFilter::default() };
    let sorted = |error: &'static str| {
        let store = &store;
        async move {
            let mut found = list(store, filter(error)).await;
            found.sort_unstable();
            found
        }
    };
    assert_eq!(sorted("Http 503").await, [ids[0], ids[2]]);
    assert_eq!(sorted("address").await, [ids[3]]);
    assert_eq!(sorted("a_b%").await, [ids[0]]);
    assert!(sorted("a%c").await.is_empty() && sorted("503 for").await.is_empty());
    // The last one counts.
    let again = worker.take_when_due(2).await;
    let exceptions = again.iter().map(|held| held.exception(retry("refused"))).collect();
    worker.settle(vec![], exceptions).await;
    assert_eq!(sorted("503").await, [ids[2]]);
    assert_eq!(sorted("refused").await, [ids[0], ids[1]]);
    let only = JobFilter { state: Some(JobState::Discarded), ..filter("503") };
    assert_eq!(list(&store, only).await, [ids[2]]);
    let pages = pages(&store, JobFilter { limit: 1, ..filter("refused") }).await;
    assert_eq!(pages.iter().map(|page| page.len()).sum::<usize>(), 2);
    for bad in ["", "a\0b"] {
        let error = store.jobs(&filter(bad)).await.expect_err("finds nothing");
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
    }
}

/// A filter by args finds the jobs whose args contain an object, as PostgreSQL's `@>` means it, in each state; encrypted args contain nothing.
pub async fn args_find_their_jobs(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let of = |json: &str| NewJob::new("kind", Args::parse(json).expect("args")).with_queue(QUEUE);
    let sealed = r#"{"windlass.enc":{"v":1,"key":"k1","nonce":"bm9uY2U","data":"ZGF0YQ"}}"#;
    let sealed = of("{}").with_envelope(Args::parse(sealed).expect("an envelope"));
    let batch = [
        of(r#"{"user": 7, "to": {"plan": "pro", "n": [1, 2.50]}}"#),
        of(r#"{"user": 70}"#),
        of(r#"{"user": 7.0, "to": {"plan": "free"}}"#).with_delay(LATER),
        of(r#"[{"user": 7}]"#),
        sealed,
        of(r#"{"user": "7", "big": 9007199254740993, "text": "\u00e4\""}"#),
    ];
    let ids = store.enqueue(&batch).await.expect("enqueue");
    let filter =
        |json: &str| JobFilter { args: Some(Args::parse(json).expect("args")), ..JobFilter::default() };
    for (wanted, expected) in [
        (r#"{"user": 7}"#, vec![ids[0], ids[2]]),
        (r#"{"user": "7"}"#, vec![ids[5]]),
        (r#"{"to": {"plan": "pro"}}"#, vec![ids[0]]),
        (r#"{"to": {}}"#, vec![ids[0], ids[2]]),
        (r#"{"to": {"n": [2.5]}}"#, vec![ids[0]]),
        (r#"{"to": {"n": [2.5, 3]}}"#, vec![]),
        (r#"{"big": 9007199254740992}"#, vec![]),
        (r#"{"big": 9007199254740993, "text": "ä\""}"#, vec![ids[5]]),
        (r#"{"windlass.enc": {"key": "k1"}}"#, vec![]),
        (r#"{"nobody": null}"#, vec![]),
    ] {
        assert_eq!(list(&store, filter(wanted)).await, expected, "{wanted}");
    }
    let both = JobFilter { state: Some(JobState::Scheduled), ..filter(r#"{"user": 7}"#) };
    assert_eq!(list(&store, both).await, [ids[2]]);
    let pages = pages(&store, JobFilter { limit: 1, ..filter(r#"{"user": 7}"#) }).await;
    assert_eq!(pages.iter().map(|page| page.len()).sum::<usize>(), 2);
    for bad in ["{}", "[1]", "7"] {
        let error = store.jobs(&filter(bad)).await.expect_err("finds nothing or all");
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
    }
}

/// Pages of any size follow each other by their tokens, without gap or overlap, whatever the states.
pub async fn pages_follow_each_other(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut expected: Vec<_> = one_of_each(&store).await.into_iter().map(|job| job.0).collect();
    let unknown = enqueue(&store, NewJob::new("unknown", args(0)).with_queue("b")).await;
    let worker = worker(&store, &["b"], &[], LEASE).await;
    let held = worker.take_one().await;
    worker.except(&held, Disposition::NoHandler).await;
    // Right behind the job that was available before: newest first, then the lane of queue b.
    expected.splice(1..1, enqueue_jobs(&store, 10).await.into_iter().rev());
    expected.insert(12, unknown);
    for limit in [1, 4, 100] {
        let pages = pages(&store, JobFilter { limit, ..JobFilter::default() }).await;
        let seen: Vec<_> = pages.iter().flat_map(|page| page.iter().map(|job| job.id)).collect();
        assert_eq!(seen, expected, "by {limit}");
    }
}

/// Each state is listed in the order of the place where it lives.
pub async fn each_state_has_its_order(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let listed = async |state: JobState| {
        let filter = JobFilter { state: Some(state), limit: 2, ..JobFilter::default() };
        let pages = pages(&store, filter).await;
        pages.iter().flat_map(|page| page.iter().map(|job| job.id)).collect::<Vec<_>>()
    };
    let minutes = [3, 1, 2].map(|n| job().with_delay(Duration::from_secs(n * 60)));
    let scheduled = store.enqueue(&minutes).await.expect("enqueue");
    assert_eq!(listed(JobState::Scheduled).await, [scheduled[1], scheduled[2], scheduled[0]]);

    let ids = enqueue_jobs(&store, 12).await;
    assert_eq!(listed(JobState::Available).await, ids.iter().copied().rev().collect::<Vec<_>>());
    let worker = worker_on(&store).await;
    let mut held = Vec::new();
    for _ in 0..ids.len() {
        held.push(worker.take_one().await);
    }
    assert_eq!(listed(JobState::Running).await, ids);
    for held in held.iter().rev().take(3) {
        worker.except(held, Disposition::Discard { error: "bad".into(), failed: true }).await;
    }
    assert_eq!(listed(JobState::Discarded).await, ids[9..]);
    for (held, minutes) in held[6..9].iter().zip([2, 3, 1]) {
        let delay = Duration::from_secs(minutes * 60);
        worker.except(held, Disposition::Retry { delay, error: "no".into() }).await;
    }
    assert_eq!(listed(JobState::Retryable).await, [ids[8], ids[6], ids[7]]);
    for held in &held[..6] {
        worker.complete(held).await;
    }
    let completed = ids[..6].iter().copied().rev();
    assert_eq!(listed(JobState::Completed).await, completed.clone().collect::<Vec<_>>());

    let together = enqueue_jobs(&store, 5).await;
    for held in worker.take(5).await {
        worker.complete(&held).await;
    }
    let completed: Vec<_> = together.into_iter().chain(completed).collect();
    assert_eq!(listed(JobState::Completed).await, completed, "as they were handed out");
    let mut cancelled = enqueue_jobs(&store, 3).await;
    store.cancel(&cancelled).await.expect("cancel");
    cancelled.reverse();
    assert_eq!(listed(JobState::Cancelled).await, cancelled, "the last one first, of one call too");
    let mut known_by_nobody = enqueue_jobs(&store, 3).await;
    for held in worker.take(3).await.iter().rev() {
        worker.except(held, Disposition::NoHandler).await;
    }
    known_by_nobody.reverse();
    assert_eq!(listed(JobState::Available).await, known_by_nobody, "the longest waiting first");
}

/// A token is of use only with the filter that it came with; what is no token is refused too.
pub async fn a_token_belongs_to_its_filter(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 3).await;
    let mut filter = JobFilter { limit: 2, ..JobFilter::default() };
    filter.after = store.jobs(&filter).await.expect("list").next;
    let damaged = filter.after.clone().map(|token| PageToken(format!("{}x", token.0)));
    let others = [
        JobFilter { state: Some(JobState::Available), ..filter.clone() },
        JobFilter { queue: Some(QUEUE.to_owned()), ..filter.clone() },
        JobFilter { kind: Some(KIND.to_owned()), ..filter.clone() },
        JobFilter { after: Some(PageToken("nonsense".to_owned())), ..filter.clone() },
        JobFilter { after: damaged, ..filter.clone() },
    ];
    for other in others {
        let error = store.jobs(&other).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{other:?}");
    }
    // One that nobody was given leads somewhere, or is refused, and harms nothing.
    for (stage, end) in (0..9).flat_map(|stage| [(stage, i64::MIN), (stage, i64::MAX)]) {
        for lane in [2, end] {
            let made_up = Some(PageToken::new(&filter, &[stage, lane, end, end]));
            let page = store.jobs(&JobFilter { after: made_up, ..filter.clone() }).await;
            assert!(page.as_ref().map_or_else(Error::is_invalid_input, |_| true), "{stage} {lane}: {page:?}");
        }
    }
    // The limit may change from page to page.
    assert_eq!(store.jobs(&JobFilter { limit: 50, ..filter }).await.expect("list").len(), 1);
}

/// What there is little of is found behind a deep backlog: by going on, or at once where it lives elsewhere.
pub async fn a_deep_backlog_hides_nothing(fixture: &dyn Fixture) {
    const BEHIND: usize = 300_000;
    let store = fixture.open().await;
    let done = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    worker.complete(&held).await;
    let rare = enqueue(&store, NewJob::new("rare", args(0)).with_queue(QUEUE)).await;
    for _ in 0..BEHIND / 10_000 {
        enqueue_jobs(&store, 10_000).await;
    }
    let completed = JobFilter { state: Some(JobState::Completed), ..JobFilter::default() };
    assert_eq!(store.jobs(&completed).await.expect("list")[0].id, done);
    for state in [None, Some(JobState::Available)] {
        let filter = JobFilter { state, kind: Some("rare".to_owned()), ..JobFilter::default() };
        let pages = pages(&store, filter).await;
        let seen: Vec<_> = pages.iter().flat_map(|page| page.iter().map(|job| job.id)).collect();
        assert_eq!(seen, [rare]);
    }
    let filter = JobFilter { limit: JobFilter::MAX_LIMIT, ..JobFilter::default() };
    let pages = pages(&store, filter).await;
    let mut seen: Vec<_> = pages.iter().flat_map(|page| page.iter().map(|job| job.id)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), BEHIND + 2);

    let stats = queue(&store, QUEUE).await;
    let expected = BEHIND as u64 + 1;
    match stats.estimates.contains(&JobState::Available) {
        true => assert!(stats.available.abs_diff(expected) < expected / 10, "{stats:?}"),
        false => assert_eq!(stats.available, expected),
    }
    assert_eq!((stats.completed, stats.estimates.contains(&JobState::Completed)), (1, false));
}

/// A page of no jobs, or of too many, is refused.
pub async fn a_senseless_limit_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for limit in [0, JobFilter::MAX_LIMIT + 1] {
        let error = store.jobs(&JobFilter { limit, ..JobFilter::default() }).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
    }
}

/// Nothing has a name with NUL, which some stores could not even look for.
pub async fn a_name_with_nul_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let nul = || Some("a\0b".to_owned());
    let hour = Duration::from_secs(3_600);
    let (mut history, mut timing) = (HistoryRequest::last(hour), TimingRequest::last(hour));
    (history.queue, timing.kind) = (nul(), nul());
    let mut refused = Vec::new();
    refused.push(store.queues_by(&QueueFilter::named("a\0b")).await.err());
    refused.push(store.queues_by(&QueueFilter { search: nul(), ..QueueFilter::default() }).await.err());
    refused.push(store.schedules(&ScheduleFilter { name: nul(), ..ScheduleFilter::default() }).await.err());
    refused.push(store.audit(&AuditFilter { actor: nul(), ..AuditFilter::default() }).await.err());
    refused.push(store.history(&history).await.err());
    refused.push(store.timings(&timing).await.err());
    refused.push(store.failures(&timing).await.err());
    let events = EventRequest { queues: nul().into_iter().collect(), ..EventRequest::after("start".into()) };
    refused.push(store.events(&events).await.err());
    for (n, refused) in refused.into_iter().enumerate() {
        let refused = refused.unwrap_or_else(|| panic!("{n} is refused"));
        assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{n}: {refused}");
        assert!(refused.to_string().ends_with("must not contain NUL, got one at byte 1"), "{refused}");
    }
}

/// A filter by what no job can have is refused as a job with it is: it would find none, however many were meant.
pub async fn a_filter_by_what_can_be_no_name_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue(&store, job()).await;
    for (odd, in_tags) in [("", true), ("a\0b", true), ("ä ö", false), ("a b", false)] {
        let odd = || Some(odd.to_owned());
        for (filter, says) in [
            (JobFilter { queue: odd(), ..JobFilter::default() }, "invalid queue name"),
            (JobFilter { kind: odd(), ..JobFilter::default() }, "invalid kind"),
        ] {
            let refused = store.jobs(&filter).await.expect_err("refused");
            assert_eq!(refused.kind(), ErrorKind::InvalidName, "{refused}");
            assert!(refused.to_string().contains(says), "{refused}");
        }
        let by_tag = store.jobs(&JobFilter { tag: odd(), ..JobFilter::default() }).await;
        assert_eq!(by_tag.err().map(|refused| refused.kind()), in_tags.then_some(ErrorKind::InvalidOption));
    }
}

/// A queue counts its jobs by state; queues come by name, those that only have a worker too.
pub async fn queues_count_their_jobs(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let jobs = one_of_each(&store).await;
    enqueue(&store, job().with_queue("b")).await;
    worker(&store, &["a"], &[], LEASE).await;
    assert_eq!(names(&store, &QueueFilter::default()).await, ["a", "b", QUEUE]);
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.available, stats.running, stats.scheduled, stats.retryable), (1, 1, 1, 1));
    assert_eq!((stats.completed, stats.cancelled, stats.discarded), (1, 1, 1));
    assert!(stats.estimates.is_empty());
    let enqueued_at = record(&store, jobs[1].0).await.enqueued_at;
    assert_eq!(stats.oldest_available_at, Some(enqueued_at));
    let b = queue(&store, "b").await;
    assert_eq!((b.available, queue(&store, "a").await.oldest_available_at), (1, None));
}

async fn names(store: &Arc<dyn Store>, filter: &QueueFilter) -> Vec<String> {
    store.queues_by(filter).await.expect("queues").into_iter().map(|queue| queue.name).collect()
}

/// Queues are listed by name, by a part of it, and page by page, in the order of bytes.
pub async fn queues_are_found_by_name(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let all = ["B", "Mail", "a", "a-b", "a_b", "b", "mail-1", "mail.x"];
    for name in ["b", "a_b", "mail.x", "a", "Mail", "a-b", "mail-1", "B"] {
        enqueue(&store, job().with_queue(name)).await;
    }
    let none = QueueFilter::default();
    assert_eq!(names(&store, &none).await, all);
    for (search, found) in [
        ("mAIL", &["Mail", "mail-1", "mail.x"][..]),
        ("A_", &["a_b"]),
        ("l.x", &["mail.x"]),
        ("%", &[]),
        ("\\'", &[]),
        ("", &all),
        ("none", &[]),
    ] {
        let filter = QueueFilter { search: Some(search.to_owned()), ..none.clone() };
        assert_eq!(names(&store, &filter).await, found, "{search:?}");
    }
    for name in all {
        let stats = store.queues_by(&QueueFilter::named(name)).await.expect("queues");
        assert_eq!(
            stats.iter().map(|queue| (&*queue.name, queue.available)).collect::<Vec<_>>(),
            [(name, 1)]
        );
    }
    assert!(names(&store, &QueueFilter::named("mail")).await.is_empty());
    let mut page = QueueFilter { limit: Some(3), ..none };
    let mut seen = Vec::new();
    loop {
        let found = names(&store, &page).await;
        assert!(found.len() <= 3);
        let Some(last) = found.last() else { break };
        page.after = Some(last.clone());
        seen.extend(found);
    }
    assert_eq!(seen, all);
    let both = QueueFilter {
        search: Some("mail".to_owned()),
        after: Some("Mail".to_owned()),
        limit: Some(1),
        name: None,
    };
    assert_eq!(names(&store, &both).await, ["mail-1"]);
}

/// The status names the store, its schema and its workers; who left is not live.
pub async fn the_status_lists_workers(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (stays, leaves) = (worker_on(&store).await, worker(&store, &["b", "a"], &[], LEASE).await);
    let status = store.status().await.expect("status");
    assert!(!status.store.is_empty() && status.schema_version > 0 && status.size_bytes > 0);
    assert_eq!(status.workers.iter().filter(|worker| worker.live).count(), 2);
    let seen = status.workers.iter().find(|worker| worker.id == leaves.id).expect("listed");
    let mut queues = seen.queues.clone();
    queues.sort_unstable();
    assert_eq!((seen.name.as_str(), queues), ("test", vec!["a".to_owned(), "b".to_owned()]));
    assert!(seen.heartbeat_at >= seen.started_at);
    store.deregister(leaves.id).await.expect("deregister");
    let status = store.status().await.expect("status");
    let live: Vec<_> = status.workers.iter().filter(|worker| worker.live).map(|worker| worker.id).collect();
    assert_eq!(live, [stays.id]);
}

/// Of more workers than a status lists those that live are listed, and it says that there are more.
pub async fn the_status_says_when_workers_are_left_out(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let first = worker_on(&store).await;
    for _ in 1..StoreStatus::MOST_WORKERS {
        store.deregister(worker_on(&store).await.id).await.expect("deregister");
    }
    let status = store.status().await.expect("status");
    assert_eq!((status.workers.len(), status.more_workers), (StoreStatus::MOST_WORKERS, false));
    worker_on(&store).await;
    let status = store.status().await.expect("status");
    assert_eq!((status.workers.len(), status.more_workers), (StoreStatus::MOST_WORKERS, true));
    assert_eq!(status.workers[1].id, first.id, "the one that lives from the beginning on");
}

/// A worker that was declared dead is not live.
pub async fn a_dead_worker_is_not_live(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    rescue_of(&store, &dying, MAX_CRASHES).await;
    let status = store.status().await.expect("status");
    assert!(status.workers.iter().all(|worker| worker.id != dying.id || !worker.live));
}

/// Lists leave errors out; looking one job up shows them, oldest first.
pub async fn errors_show_with_one_job(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    for attempt in 1..=3 {
        let held = worker.take_when_due(1).await.remove(0);
        let retry =
            Disposition::Retry { delay: std::time::Duration::ZERO, error: format!("failure {attempt}") };
        worker.except(&held, retry).await;
    }
    let expected: Vec<_> = (1..=3).map(|attempt| (attempt, format!("failure {attempt}"))).collect();
    assert_eq!(errors_of(&store, id).await, expected);
    assert!(store.jobs(&JobFilter::default()).await.expect("list")[0].errors.is_empty());
}

/// Migrating again changes nothing, from several processes at once too.
pub async fn migrating_again_changes_nothing(fixture: &dyn Fixture) {
    let (one, other) = (fixture.open().await, fixture.open().await);
    let id = enqueue(&one, job()).await;
    let (first, second) = tokio::join!(one.migrate(), other.migrate());
    let (first, second) = (first.expect("migrate"), second.expect("migrate"));
    assert_eq!((first.from, second.from), (first.to, first.to));
    assert_eq!(first.to, one.status().await.expect("status").schema_version);
    assert_eq!(state(&other, id).await, JobState::Available);
}
