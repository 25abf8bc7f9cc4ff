//! Jobs that one statement stores, alone, in a call of several, or with those of other calls: each is kept as it was said.

use crate::cluster::Fixture;
use jiff::{SignedDuration, Timestamp};
use std::{sync::Arc, time::Duration};
use windlass_conformance::steps::{KIND, QUEUE};
use windlass_core::{Args, JobId, JobState, JobStore, NewJob};
use windlass_postgres::PostgresStore;

const HOUR: Duration = Duration::from_secs(3_600);

/// How many different ones there are.
const SORTS: usize = 7;

/// The nth of a sort.
fn job(n: usize, sort: usize) -> NewJob {
    let job = NewJob::new(KIND, Args::parse(&format!("{{\"n\": {n}}}")).unwrap())
        .with_queue(QUEUE)
        .with_max_attempts(u16::try_from(n).unwrap() + 1);
    let tagged = |job: NewJob| job.with_tag(format!("tag-{n}")).with_key(format!("key-{n}"));
    let now = Timestamp::now();
    match sort {
        0 => job,
        1 => tagged(job),
        2 => job.with_delay(HOUR),
        3 => tagged(job).with_scheduled_at(now + HOUR),
        4 => job.with_scheduled_at(now - HOUR),
        5 => tagged(job).with_expiry(HOUR),
        _ => tagged(job).with_priority(5),
    }
}

async fn assert_kept(store: &PostgresStore, n: usize, sort: usize, id: JobId) {
    let record = store.job(id).await.unwrap().expect("it is stored");
    assert_eq!(record.args.as_str(), format!("{{\"n\": {n}}}"), "{sort}");
    assert_eq!((&*record.queue, usize::from(record.max_attempts)), (QUEUE, n + 1));
    let is_tagged = matches!(sort, 1 | 3 | 5 | 6);
    assert_eq!(record.tags, if is_tagged { vec![format!("tag-{n}")] } else { Vec::new() }, "{n} of {sort}");
    assert_eq!(record.key, is_tagged.then(|| format!("key-{n}")));
    let in_an_hour = |at: Timestamp| {
        let left = at.duration_since(Timestamp::now());
        left > SignedDuration::from_mins(50) && left < SignedDuration::from_mins(70)
    };
    let is_scheduled = matches!(sort, 2 | 3);
    assert_eq!(record.state, if is_scheduled { JobState::Scheduled } else { JobState::Available });
    assert!(!is_scheduled || record.scheduled_at.is_some_and(in_an_hour), "{:?}", record.scheduled_at);
    assert_eq!(record.expires_at.is_some_and(in_an_hour), sort == 5);
    assert_eq!(record.priority, if sort == 6 { 5 } else { 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_come_at_once_keep_what_each_says() {
    let store = Arc::new(Fixture::shared().await.store().await);
    let calls = (0..10 * SORTS).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.enqueue(&[job(n, n % SORTS)]).await.unwrap()[0] })
    });
    for (n, id) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
        assert_kept(&store, n, n % SORTS, id.unwrap()).await;
    }
}

/// Alone, fewer than a block, a block and more, the most, more than that; and of all sorts mixed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_one_call_keep_what_each_says() {
    let fixture = Fixture::shared().await;
    let (store, mut client) = (fixture.store().await, fixture.sql().await);
    for count in [1, 2, 7, 8, 16, 17, 500, 501] {
        for sort in 0..=SORTS {
            let sort_of = |n: usize| if sort == SORTS { n % SORTS } else { sort };
            let jobs: Vec<_> = (0..count).map(|n| job(n, sort_of(n))).collect();
            let ids = store.enqueue(&jobs).await.unwrap();
            let tx = client.transaction().await.unwrap();
            let inside = store.enqueue_in(&tx, &jobs).await.unwrap();
            tx.commit().await.unwrap();
            for ids in [ids, inside] {
                assert!(
                    ids.len() == count && ids.windows(2).all(|two| two[0] < two[1]),
                    "{count} of {sort}: {ids:?}"
                );
                for (n, id) in ids.into_iter().enumerate().step_by(if count < 20 { 1 } else { 83 }) {
                    assert_kept(&store, n, sort_of(n), id).await;
                }
            }
        }
    }
}
