//! A timer for jobs that wait an exact time. That of tokio rounds up to the next millisecond: a job of 10 ms
//! takes 11, and a worker could reach no more than 91 % of the theoretical maximum.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{
        OnceLock,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// A task that waits.
struct Waiter {
    until: Instant,
    wake: oneshot::Sender<()>,
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Self) -> bool {
        self.until == other.until
    }
}

impl Eq for Waiter {}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiter {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.until.cmp(&other.until)
    }
}

/// Waits for this long, exact to about a tenth of a millisecond.
pub(crate) async fn nap(duration: Duration) {
    static TIMER: OnceLock<Sender<Waiter>> = OnceLock::new();
    let timer = TIMER.get_or_init(|| {
        let (sender, receiver) = channel();
        std::thread::spawn(move || keep_time(&receiver));
        sender
    });
    let (wake, woken) = oneshot::channel();
    let waiter = Waiter { until: Instant::now() + duration, wake };
    if timer.send(waiter).is_ok() {
        let _ = woken.await;
    }
}

/// The thread of the timer: it sleeps until the next waiter is due or a new one comes.
fn keep_time(waiters: &Receiver<Waiter>) {
    let mut heap = BinaryHeap::new();
    loop {
        let now = Instant::now();
        while heap.peek().is_some_and(|Reverse(next): &Reverse<Waiter>| next.until <= now) {
            if let Some(Reverse(due)) = heap.pop() {
                let _ = due.wake.send(());
            }
        }
        let pause = heap.peek().map_or(Duration::from_secs(3600), |Reverse(next)| next.until - now);
        match waiters.recv_timeout(pause) {
            Ok(waiter) => heap.push(Reverse(waiter)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
