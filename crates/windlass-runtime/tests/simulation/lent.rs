use crate::{handlers::run_lent, process::Process};
use std::{collections::BTreeMap, future::poll_fn, pin::Pin, sync::Arc, task::Poll};
use tokio::sync::Notify;
use windlass_core::Outcome;
use windlass_runtime::lend::{HandIn, Lender, News, Room, Ticket};

type Job = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The event loop of another language in this process: takes jobs, runs them by their scripts, hands in what became of them.
/// Ends with the lender.
pub async fn foreign_loop(process: Arc<Process>, lender: Lender, room: usize) {
    let bell = Arc::new(Notify::new());
    let ring = Arc::clone(&bell);
    let borrower = lender.borrower(move || ring.notify_one());
    let (mut jobs, mut done, mut lent) = (BTreeMap::<Ticket, Job>::new(), Vec::new(), Vec::new());
    loop {
        let room = Room::jobs(room - jobs.len());
        let exchanged = borrower.exchange(&mut done, room, &mut lent);
        for news in exchanged.news {
            if let News::Evicted(ticket) = news {
                jobs.remove(&ticket);
            }
        }
        if exchanged.closed {
            return;
        }
        for job in lent.drain(..) {
            jobs.insert(job.ticket, run_lent(&process, job.context));
        }
        tokio::select! {
            biased;
            () = bell.notified() => {}
            ended = next(&mut jobs) => done.extend(ended),
        }
    }
}

/// The outcomes of those that ended: one at least.
async fn next(jobs: &mut BTreeMap<Ticket, Job>) -> Vec<HandIn> {
    poll_fn(|cx| {
        let mut ended = Vec::new();
        jobs.retain(|ticket, job| match job.as_mut().poll(cx) {
            Poll::Ready(outcome) => {
                ended.push(HandIn { ticket: *ticket, outcome });
                false
            }
            Poll::Pending => true,
        });
        if ended.is_empty() { Poll::Pending } else { Poll::Ready(ended) }
    })
    .await
}
