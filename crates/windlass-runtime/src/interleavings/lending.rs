//! Jobs that threads of foreign code run: none is forgotten between the engine and them, and none is settled twice.

use super::{bench::Bench, fake::Handlers, in_every_order};
use crate::{
    lend::{Exchanged, HandIn, Lender, LentJob, News, Room, Ticket},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        spawn,
    },
};
use shuttle::future::{JoinHandle, block_on};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;
use windlass_core::{JobId, JobState, Outcome};

/// A thread of foreign code that runs jobs until the lender is closed: how many it ran.
fn run(lender: &Lender, room: usize) -> JoinHandle<usize> {
    let bell = Arc::new(Notify::new());
    let ring = Arc::clone(&bell);
    let borrower = lender.borrower(move || ring.notify_one());
    spawn(async move {
        let (mut done, mut lent, mut ran): (Vec<HandIn>, Vec<LentJob>, _) = (Vec::new(), Vec::new(), 0);
        loop {
            let Exchanged { closed, refused, .. } = borrower.exchange(&mut done, Room::jobs(room), &mut lent);
            assert_eq!(refused, 0);
            ran += lent.len();
            let outcome = || Outcome::Complete(None);
            done.extend(lent.drain(..).map(|job| HandIn { ticket: job.ticket, outcome: outcome() }));
            if done.is_empty() {
                if closed {
                    return ran;
                }
                bell.notified().await;
            }
        }
    })
}

/// Handlers that lend jobs of the kind `lent`: without a future for each job, with one, and two jobs as a batch.
type Lend = fn(Handlers, &str, &Lender) -> Handlers;

fn lend_by_two(handlers: Handlers, kind: &str, lender: &Lender) -> Handlers {
    handlers.lend_batch(kind, (2, Duration::from_secs(60)), lender)
}

#[test]
fn every_job_finds_a_thread() {
    in_every_order(|| all_find_a_thread(Handlers::lend));
    in_every_order(|| all_find_a_thread(Handlers::lend_awaited));
    in_every_order(|| all_find_a_thread(lend_by_two));
}

fn all_find_a_thread(lend: Lend) {
    block_on(async {
        let lender = Lender::new();
        let bench = Bench::start(3, lend(Handlers::default(), "lent", &lender)).await;
        let threads = [run(&lender, 1), run(&lender, 2)];
        let store = bench.store.clone();
        store.add("q", "lent", 4);
        bench.claim(3).await;
        bench.claim(1).await;
        store.until("all done", |model| model.all_completed()).await;
        bench.finish().await;
        lender.close();
        let mut ran = 0;
        for thread in threads {
            ran += thread.await.expect("it ends");
        }
        assert_eq!(ran, 4);
    });
}

#[test]
fn a_job_that_is_taken_away_while_it_is_handed_in_is_settled_once() {
    in_every_order(|| taken_away(Handlers::lend));
    in_every_order(|| taken_away(Handlers::lend_awaited));
    in_every_order(|| taken_away(lend_by_two));
}

fn taken_away(lend: Lend) {
    block_on(async {
        let lender = Lender::new();
        let bench = Bench::start(2, lend(Handlers::default(), "lent", &lender)).await;
        let store = bench.store.clone();
        store.add("q", "lent", 2);
        bench.claim(2).await;
        let refused = Arc::new(AtomicUsize::new(0));
        let thread = {
            let (lender, refused) = (lender.clone(), Arc::clone(&refused));
            spawn(async move {
                let bell = Arc::new(Notify::new());
                let ring = Arc::clone(&bell);
                let borrower = lender.borrower(move || ring.notify_one());
                let (mut done, mut lent) = (Vec::new(), Vec::new());
                loop {
                    let exchanged = borrower.exchange(&mut done, Room::jobs(2), &mut lent);
                    refused.fetch_add(exchanged.refused as usize, Ordering::SeqCst);
                    done.extend(
                        lent.drain(..)
                            .map(|job| HandIn { ticket: job.ticket, outcome: Outcome::Complete(None) }),
                    );
                    if done.is_empty() {
                        if exchanged.closed {
                            return;
                        }
                        bell.notified().await;
                    }
                }
            })
        };
        bench.epoch.evict();
        bench.finish().await;
        lender.close();
        thread.await.expect("it ends");
        let model = store.model();
        let completed = model.count(JobState::Completed);
        assert_eq!((model.held(), completed + model.count(JobState::Available)), (0, 2));
        let refused = refused.load(Ordering::SeqCst);
        assert!(completed + refused <= 2, "{completed} completed, {refused} refused");
    });
}

#[test]
fn a_thread_that_goes_leaves_its_jobs_to_the_other() {
    in_every_order(|| one_goes(Handlers::lend));
    in_every_order(|| one_goes(Handlers::lend_awaited));
    in_every_order(|| one_goes(lend_by_two));
}

fn one_goes(lend: Lend) {
    block_on(async {
        let lender = Lender::new();
        let bench = Bench::start(1, lend(Handlers::default(), "lent", &lender)).await;
        let store = bench.store.clone();
        let took = Arc::new(Mutex::new(0));
        let goes = {
            let (lender, took) = (lender.clone(), Arc::clone(&took));
            spawn(async move {
                let borrower = lender.borrower(|| {});
                let mut lent = Vec::new();
                borrower.exchange(&mut Vec::new(), Room::jobs(1), &mut lent);
                *took.lock().expect("no panic") = lent.len();
            })
        };
        let stays = run(&lender, 1);
        store.add("q", "lent", 2);
        bench.claim(2).await;
        goes.await.expect("it ends");
        store.until("none is held", |model| model.held() == 0).await;
        bench.finish().await;
        lender.close();
        let (ran, took) = (stays.await.expect("it ends"), *took.lock().expect("no panic"));
        assert_eq!(ran + took, 2);
        assert_eq!(store.model().count(JobState::Retryable), took, "what it had failed");
    });
}

#[test]
fn a_job_of_a_batch_that_is_to_stop_is_told_so_whenever_that_comes() {
    in_every_order(|| told_in_a_batch(false, |bench, job| bench.core.cancel(&bench.epoch, vec![job])));
    in_every_order(|| told_in_a_batch(true, |bench, job| bench.core.cancel(&bench.epoch, vec![job])));
    in_every_order(|| told_in_a_batch(true, |bench, _| bench.epoch.interrupt()));
}

fn told_in_a_batch(once_lent: bool, stop: fn(&Bench, JobId)) {
    block_on(async {
        let lender = Lender::new();
        let bench = Bench::start(2, lend_by_two(Handlers::default(), "lent", &lender)).await;
        let store = bench.store.clone();
        let jobs = store.add("q", "lent", 2);
        bench.claim(2).await;
        let has = Arc::new(Notify::new());
        let thread = hold(&lender, jobs[1], &has);
        if once_lent {
            has.notified().await;
        }
        stop(&bench, jobs[1]);
        bench.finish().await;
        lender.close();
        thread.await.expect("it ends");
        assert_eq!(store.model().held(), 0);
    });
}

/// A thread of foreign code that hands in every job but this one at once, and this one when it is told to stop it.
fn hold(lender: &Lender, held: JobId, has: &Arc<Notify>) -> JoinHandle<()> {
    let has = Arc::clone(has);
    let bell = Arc::new(Notify::new());
    let ring = Arc::clone(&bell);
    let borrower = lender.borrower(move || ring.notify_one());
    spawn(async move {
        let (mut done, mut lent): (Vec<HandIn>, Vec<LentJob>) = (Vec::new(), Vec::new());
        let mut kept = None;
        let complete = |ticket: Ticket| HandIn { ticket, outcome: Outcome::Complete(None) };
        loop {
            let exchanged = borrower.exchange(&mut done, Room::jobs(1), &mut lent);
            assert_eq!(exchanged.refused, 0, "each is handed in once");
            for job in lent.drain(..) {
                match job.context.id() == held {
                    true => {
                        kept = Some(job.ticket);
                        has.notify_one();
                    }
                    false => done.push(complete(job.ticket)),
                }
            }
            let is_told = |ticket: &mut Ticket| {
                exchanged.news.iter().any(|news| matches!(news, News::Interrupt(of, _) if of == ticket))
            };
            done.extend(kept.take_if(is_told).map(complete));
            if done.is_empty() {
                if exchanged.closed {
                    return;
                }
                bell.notified().await;
            }
        }
    })
}
