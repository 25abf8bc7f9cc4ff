//! Inspection: operators see each job, queue and worker as it is.

use crate::{Fixture, steps::*};
use std::sync::Arc;
use windlass_core::{Disposition, ErrorKind, JobFilter, JobId, JobState, NewJob, Store};

/// Makes one job in each state that a job can be in, and returns them with it.
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
        (jobs[0].job.id, JobState::Completed),
        (jobs[1].job.id, JobState::Retryable),
        (jobs[2].job.id, JobState::Discarded),
        (jobs[3].job.id, JobState::Cancelled),
        (jobs[4].job.id, JobState::Running),
        (scheduled, JobState::Scheduled),
        (available, JobState::Available),
    ]
}

async fn list(store: &Arc<dyn Store>, filter: JobFilter) -> Vec<JobId> {
    store.jobs(&filter).await.expect("list").iter().map(|job| job.id).collect()
}

/// Every job is listed in its state, newest first, and looked up in the same state.
pub async fn each_job_in_its_state(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let jobs = one_of_each(&store).await;
    let listed = store.jobs(&JobFilter::default()).await.expect("list");
    assert!(listed.is_sorted_by(|a, b| a.id > b.id));
    let mut seen: Vec<_> = listed.iter().map(|job| (job.id, job.state)).collect();
    seen.reverse();
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
    assert_eq!(list(&store, filter(Some("a"), None)).await, [ids[2], ids[0]]);
    assert_eq!(list(&store, filter(None, Some("y"))).await, [ids[3], ids[2]]);
    assert_eq!(list(&store, filter(Some("b"), Some("y"))).await, [ids[3]]);
    assert!(list(&store, filter(Some("c"), None)).await.is_empty());
    assert!(list(&store, filter(None, Some("z"))).await.is_empty());
    let both = JobFilter { state: Some(JobState::Available), ..filter(Some("b"), None) };
    assert_eq!(list(&store, both).await, [ids[1]]);
}

/// Pages follow each other by their tokens, without gap or overlap, whatever the states.
pub async fn pages_follow_each_other(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut expected: Vec<_> = one_of_each(&store).await.into_iter().map(|job| job.0).collect();
    expected.extend(enqueue_jobs(&store, 10).await);
    expected.reverse();
    let (mut seen, mut filter) = (Vec::new(), JobFilter { limit: 4, ..JobFilter::default() });
    loop {
        let page = store.jobs(&filter).await.expect("list");
        assert!(page.len() <= 4);
        seen.extend(page.iter().map(|job| job.id));
        filter.after = page.next;
        if filter.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, expected);
}

/// A page of no jobs, or of too many, is refused.
pub async fn a_senseless_limit_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for limit in [0, JobFilter::MAX_LIMIT + 1] {
        let error = store.jobs(&JobFilter { limit, ..JobFilter::default() }).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
    }
}

/// A queue counts its jobs by state; queues come by name, those that only have a worker too.
pub async fn queues_count_their_jobs(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    one_of_each(&store).await;
    enqueue(&store, job().with_queue("b")).await;
    worker(&store, &["a"], &[], LEASE).await;
    let names: Vec<_> = store.queues().await.expect("queues").into_iter().map(|queue| queue.name).collect();
    assert_eq!(names, ["a", "b", QUEUE]);
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.available, stats.running, stats.scheduled, stats.retryable), (1, 1, 1, 1));
    assert_eq!((stats.completed, stats.cancelled, stats.discarded), (1, 1, 1));
    assert_eq!(queue(&store, "b").await.available, 1);
}

/// The status names the store, its schema, its queues and its workers; who left is not live.
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
    assert_eq!(status.queues.len(), 3);
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
