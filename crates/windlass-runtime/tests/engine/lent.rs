//! Foreign code runs jobs: it takes them in batches, and everything of a job holds for it as for a handler.

use crate::fake::{FakeStore, Handlers, config};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use windlass_core::{Args, JobId, JobState, JobStore, NewJob, Outcome, QueueLimits};
use windlass_runtime::{
    EngineHandle, Settling, WorkerConfig, WorkerEngine,
    lend::{Borrower, Exchanged, HandIn, Lender, LentJob, News, Room, Ticket},
};

const LONG: Duration = Duration::from_secs(10_000);

/// An event loop of another language.
pub(crate) struct Foreign {
    borrower: Borrower,
    bell: Arc<Notify>,
    rung: Arc<AtomicUsize>,
}

impl Foreign {
    pub(crate) fn new(lender: &Lender) -> Self {
        let (bell, rung) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (ring, count) = (Arc::clone(&bell), Arc::clone(&rung));
        let borrower = lender.borrower(move || {
            count.fetch_add(1, Ordering::SeqCst);
            ring.notify_one();
        });
        Self { borrower, bell, rung }
    }

    pub(crate) fn exchange(&self, done: Vec<(Ticket, Outcome)>, room: usize) -> (Vec<LentJob>, Exchanged) {
        let mut done = done.into_iter().map(|(ticket, outcome)| HandIn { ticket, outcome }).collect();
        let mut lent = Vec::new();
        let exchanged = self.borrower.exchange(&mut done, Room::jobs(room), &mut lent);
        assert!(done.is_empty() && lent.len() <= room);
        (lent, exchanged)
    }

    /// Takes so many jobs, as they come.
    pub(crate) async fn take(&self, count: usize) -> Vec<LentJob> {
        let mut all = Vec::new();
        loop {
            let (lent, exchanged) = self.exchange(Vec::new(), count - all.len());
            assert_eq!(exchanged.news, []);
            all.extend(lent);
            if all.len() == count {
                return all;
            }
            self.rings().await;
        }
    }

    /// Takes a batch, though it has room for one job.
    pub(crate) async fn take_batch(&self) -> Vec<LentJob> {
        let mut lent = Vec::new();
        loop {
            self.borrower.exchange(&mut Vec::new(), Room::jobs(1), &mut lent);
            if !lent.is_empty() {
                return lent;
            }
            self.rings().await;
        }
    }

    pub(crate) async fn rings(&self) {
        timeout(LONG, self.bell.notified()).await.expect("nobody rings");
    }

    /// What it is told next.
    pub(crate) async fn news(&self) -> Vec<News> {
        loop {
            let news = self.exchange(Vec::new(), 0).1.news;
            if !news.is_empty() {
                return news;
            }
            self.rings().await;
        }
    }

    pub(crate) fn complete(&self, jobs: &[LentJob]) {
        let done = jobs.iter().map(|job| (job.ticket, Outcome::Complete(None))).collect();
        assert_eq!(self.exchange(done, 0).1.refused, 0);
    }
}

pub(crate) async fn start(store: &FakeStore, config: WorkerConfig, lender: &Lender) -> EngineHandle {
    let handlers = Handlers::default().lend("lent", lender);
    WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap()
}

/// Waits, on the paused clock, until a job is in this state.
pub(crate) async fn until(store: &FakeStore, job: JobId, state: JobState) {
    let reached = async {
        while store.model().job(job).state != state {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, reached).await.unwrap_or_else(|_| panic!("job {job} never is {state}"));
}

pub(crate) fn enqueue(store: &FakeStore, change: impl FnOnce(NewJob) -> NewJob, crash_count: u16) -> JobId {
    let job = change(NewJob::new("lent", Args::parse(r#"{"a":1}"#).unwrap()).with_queue("q"));
    let id = store.model().enqueue(&[job], crash_count).unwrap()[0];
    store.announce();
    id
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_taken_at_once_and_each_outcome_counts() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let ids = store.add("q", "lent", 5);
    let (engine, foreign) = (start(&store, config(5), &lender).await, Foreign::new(&lender));
    let jobs = foreign.take(5).await;
    assert_eq!(jobs.iter().map(|job| job.context.id()).collect::<Vec<_>>(), ids);
    assert!(jobs.iter().all(|job| job.args == "{}" && job.context.attempt() == 1));
    let outcomes = [
        Outcome::complete_with(&7),
        Outcome::Retry { after: None, error: "no route".into() },
        Outcome::Snooze(Duration::from_secs(60)),
        Outcome::Cancel("not wanted".into()),
        Outcome::Discard("hopeless".into()),
    ];
    let done = jobs.iter().map(|job| job.ticket).zip(outcomes).collect();
    assert_eq!(foreign.exchange(done, 0).1.refused, 0);
    let states = ["completed", "retryable", "scheduled", "cancelled", "discarded"];
    for (id, state) in ids.iter().zip(states) {
        until(&store, *id, state.parse().unwrap()).await;
    }
    engine.shutdown().await;
    let mut model = store.model();
    assert_eq!(model.job(ids[0]).result.as_ref().map(Args::as_str), Some("7"));
    assert_eq!(model.errors(ids[1]), ["no route"]);
    assert_eq!(model.job(ids[4]).reason.as_deref(), Some("hopeless"));
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_good_for_one_hand_in_by_the_one_who_has_it() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let ids = store.add("q", "lent", 2);
    let engine = start(&store, config(1), &lender).await;
    let (mine, other) = (Foreign::new(&lender), Foreign::new(&lender));
    let first = mine.take(1).await.remove(0).ticket;
    let discard = || Outcome::Discard("by a stranger".into());
    assert_eq!(other.exchange(vec![(first, discard())], 0).1.refused, 1, "foreign");
    assert_eq!(other.exchange(vec![(Ticket(99), discard())], 0).1.refused, 1, "made up");
    let done = vec![(first, Outcome::Complete(None)), (first, discard())];
    assert_eq!(mine.exchange(done, 0).1.refused, 1, "doubled");
    let second = mine.take(1).await.remove(0).ticket;
    assert_ne!(first, second, "never used again");
    assert_eq!(mine.exchange(vec![(first, discard())], 0).1.refused, 1, "late");
    assert_eq!(mine.exchange(vec![(second, Outcome::Complete(None))], 0).1.refused, 0);
    for id in ids {
        until(&store, id, JobState::Completed).await;
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_bell_rings_once_until_the_next_exchange_and_for_those_who_have_room() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let (one, other) = (Foreign::new(&lender), Foreign::new(&lender));
    assert!(one.exchange(Vec::new(), 10).0.is_empty());
    assert!(other.exchange(Vec::new(), 0).0.is_empty());
    store.add("q", "lent", 5);
    let engine = start(&store, config(5), &lender).await;
    while lender.offered() < 5 {
        sleep(Duration::from_millis(1)).await;
    }
    let rung = |foreign: &Foreign| foreign.rung.load(Ordering::SeqCst);
    assert_eq!((rung(&one), rung(&other)), (1, 0), "who has no room is left alone");
    assert!(other.exchange(Vec::new(), 0).1.more);
    let mut done = Vec::new();
    let (lent, exchanged) = one.exchange(Vec::new(), 3);
    assert_eq!((lent.len(), exchanged.more), (3, true));
    let (rest, exchanged) = one.exchange(Vec::new(), 3);
    assert_eq!((rest.len(), exchanged.more), (2, false));
    done.extend(lent.into_iter().chain(rest).map(|job| (job.ticket, Outcome::Complete(None))));
    assert_eq!(one.exchange(done, 0).1.refused, 0);
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
    lender.close();
    assert!(one.exchange(Vec::new(), 1).1.closed);
    assert_eq!((rung(&one), rung(&other)), (2, 1), "both are told of the end");
}

#[tokio::test(start_paused = true)]
async fn room_is_bounded_by_bytes_but_for_the_first() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    store.add("q", "lent", 5);
    let (engine, foreign) = (start(&store, config(5), &lender).await, Foreign::new(&lender));
    while lender.offered() < 5 {
        sleep(Duration::from_millis(1)).await;
    }
    let take = |bytes| {
        let mut lent = Vec::new();
        foreign.borrower.exchange(&mut Vec::new(), Room { jobs: 9, bytes }, &mut lent);
        foreign.complete(&lent);
        lent.len()
    };
    assert_eq!((take(0), take(3), take(100)), (1, 2, 2), "args are {{}}");
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_foreign_code_says_of_its_job_is_kept() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let id = enqueue(&store, |job| job.with_key("acme").with_max_attempts(2), 0);
    let (engine, foreign) = (start(&store, config(1), &lender).await, Foreign::new(&lender));
    let job = foreign.take(1).await.remove(0);
    assert_eq!((job.context.key(), &job.args[..]), (Some("acme"), &br#"{"a":1}"#[..]));
    job.context.progress((40.0, "page 4")).unwrap();
    job.context.log("a line");
    job.context.checkpoint(&4).await.unwrap();
    let failed = Outcome::Retry { after: Some(Duration::ZERO), error: "cut off".into() };
    foreign.exchange(vec![(job.ticket, failed)], 0);
    let again = foreign.take(1).await.remove(0);
    assert_eq!((again.context.attempt(), again.context.last_checkpoint::<u8>().await.unwrap()), (2, Some(4)));
    foreign.complete(&[again]);
    until(&store, id, JobState::Completed).await;
    engine.shutdown().await;
    let report = store.model().job(id).report.expect("something was said");
    assert_eq!((report.progress.unwrap().percent, report.log[0].text.as_str()), (40.0, "a line"));
}

#[tokio::test(start_paused = true)]
async fn suspects_are_lent_alone_and_announced() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let suspects = [(); 3].map(|()| enqueue(&store, |job| job, 2));
    let (engine, foreign) = (start(&store, config(3), &lender).await, Foreign::new(&lender));
    for id in suspects {
        let job = foreign.take(1).await.remove(0);
        assert_eq!((job.context.id(), store.model().suspect()), (id, Some(id)));
        sleep(Duration::from_secs(5)).await;
        assert_eq!(lender.offered(), 0, "the others wait");
        foreign.complete(&[job]);
    }
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn limits_and_strict_settling_hold() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let limits = QueueLimits::default().with_concurrency(2);
    store.limit("q", &limits).await.unwrap();
    store.add("q", "lent", 6);
    let config = WorkerConfig { settling: Settling::Strict, ..config(6) };
    let (engine, foreign) = (start(&store, config, &lender).await, Foreign::new(&lender));
    for _ in 0..3 {
        let jobs = foreign.take(2).await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(lender.offered(), 0, "two at once");
        foreign.complete(&jobs);
    }
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
}

/// No executor waits for them, and yet each has the place of one.
#[tokio::test(start_paused = true)]
async fn no_more_are_lent_than_may_run() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    store.add("q", "lent", 200);
    let (engine, foreign) = (start(&store, config(70), &lender).await, Foreign::new(&lender));
    let mut jobs = foreign.take(70).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!((lender.offered(), engine.stats().running), (0, 70));
    foreign.complete(&jobs.split_off(67));
    let more = foreign.take(3).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!((lender.offered(), engine.stats().running), (0, 70));
    foreign.complete(&jobs);
    foreign.complete(&more);
    foreign.complete(&foreign.take(70).await);
    foreign.complete(&foreign.take(57).await);
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
    assert_eq!(engine.stats().completed, 200);
}

#[tokio::test(start_paused = true)]
async fn who_goes_fails_what_it_has_and_the_others_go_on() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let ids = store.add("q", "lent", 2);
    let engine = start(&store, config(2), &lender).await;
    let (dies, ends, lives) = (Foreign::new(&lender), Foreign::new(&lender), Foreign::new(&lender));
    let (_, _) = (dies.take(1).await, ends.take(1).await);
    assert!(lives.exchange(Vec::new(), 2).0.is_empty());
    drop(dies);
    ends.borrower.end("the child died: signal 9");
    until(&store, ids[0], JobState::Retryable).await;
    until(&store, ids[1], JobState::Retryable).await;
    let errors = [0, 1].map(|n: usize| store.model().errors(ids[n]));
    assert_eq!(errors, [["what ran the job is gone"], ["the child died: signal 9"]]);
    let jobs = lives.take(2).await;
    assert!(jobs.iter().all(|job| job.context.attempt() == 2));
    lives.complete(&jobs);
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn who_goes_with_its_worker_gives_back_what_it_has() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let ids = store.add("q", "lent", 2);
    let engine = start(&store, config(2), &lender).await;
    let goes = Foreign::new(&lender);
    goes.take(2).await;
    goes.borrower.give_back();
    engine.shutdown().await;
    for id in ids {
        until(&store, id, JobState::Scheduled).await; // for now
        assert!(store.model().errors(id).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_one_was_rung_for_goes_to_another_when_that_one_dies() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let engine = start(&store, config(1), &lender).await;
    let (dies, lives) = (Foreign::new(&lender), Foreign::new(&lender));
    dies.exchange(Vec::new(), 1);
    lives.exchange(Vec::new(), 1);
    store.add("q", "lent", 1);
    store.announce();
    dies.rings().await;
    drop(dies);
    lives.rings().await;
    let jobs = lives.take(1).await;
    lives.complete(&jobs);
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
}
