//! Windlass's own enqueues, cut exactly around their commits: what the error says of the jobs is true, and
//! repeating under the same idempotency key stores them once.
use std::{net::Ipv4Addr, time::Duration};
use windlass_chaos::{
    node::{Postgres, PostgresOptions},
    proxy::{Chance, CommitCuts, CutPoint, Proxy},
};
use windlass_core::{Args, ErrorKind, JobStore, NewJob};
use windlass_postgres::PostgresStore;

/// Enqueues that take different ways: one statement for one and for several, a transaction with COPY, with INSERT, and the same of jobs for later.
fn shapes() -> [Vec<NewJob>; 6] {
    let job = || NewJob::new("cut", Args::parse("{}").unwrap());
    let later = || job().with_delay(Duration::from_secs(3600));
    [
        vec![job()],
        vec![job(); 20],
        vec![job(); 600],
        vec![job(), later()],
        vec![later(); 2],
        vec![later(); 600],
    ]
}

async fn store(url: &str) -> PostgresStore {
    PostgresStore::connect(url, Default::default()).await.unwrap()
}

async fn stored(store: &PostgresStore) -> u64 {
    store.queues().await.unwrap().iter().map(|queue| queue.available + queue.scheduled).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_error_says_of_a_cut_enqueue_is_true() {
    let settings = vec![("shared_buffers".to_owned(), "16MB".to_owned())];
    let options = PostgresOptions { settings, ..Default::default() };
    let server = tokio::task::spawn_blocking(|| Postgres::start(options).unwrap()).await.unwrap();
    let proxy = Proxy::start((Ipv4Addr::LOCALHOST, server.port()).into()).await.unwrap();
    let direct = store(&server.url()).await;
    direct.migrate().await.unwrap();
    let mut known = 0;
    for parameters in ["", "?pooler=transaction"] {
        let cut = store(&format!("{}{parameters}", proxy.url_of(&server.url()).unwrap())).await;
        for point in [CutPoint::BeforeForward, CutPoint::AfterForward, CutPoint::Racing] {
            for (shape, jobs) in shapes().into_iter().enumerate() {
                let what = format!("{point:?}, shape {shape}, {parameters}");
                cut.enqueue(&jobs).await.unwrap(); // the queue is known, the connection is there
                known += jobs.len() as u64;
                // A racing commit may come at any time after the cut: only a key makes it count for nothing.
                if point != CutPoint::Racing {
                    let commits = proxy.counts().commits_cut;
                    proxy.cut_commits(Some(CommitCuts::new(&[point], Chance::EveryNth(1), 0)));
                    let error = cut.enqueue(&jobs).await.expect_err(&what);
                    proxy.cut_commits(None);
                    assert_eq!(proxy.counts().commits_cut, commits + 1, "{what}: {error}");
                    if point == CutPoint::AfterForward {
                        assert_eq!(error.kind(), ErrorKind::Ambiguous, "{what}: {error}");
                        known += jobs.len() as u64;
                    }
                    assert_eq!(stored(&direct).await, known, "{what}");
                }

                let key = format!("{point:?} {shape} {parameters}");
                proxy.cut_commits(Some(CommitCuts::new(&[point], Chance::EveryNth(1), 0)));
                let error = cut.enqueue_once(&key, &jobs).await.expect_err(&what);
                proxy.cut_commits(None);
                assert_eq!(error.kind(), ErrorKind::Ambiguous, "once, {what}: {error}");
                let first = cut.enqueue_once(&key, &jobs).await.unwrap();
                assert_eq!(cut.enqueue_once(&key, &jobs).await.unwrap().ids, first.ids);
                known += jobs.len() as u64;
                assert_eq!(stored(&direct).await, known, "once, {what}");
                match point {
                    CutPoint::BeforeForward => assert!(!first.repeated, "{what}"),
                    CutPoint::AfterForward => assert!(first.repeated, "{what}"),
                    CutPoint::Racing => {}
                }
            }
        }
        cut.close().await;
    }
}
