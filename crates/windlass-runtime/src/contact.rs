use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// For how long this process has been in touch with the store without a break.
///
/// After an outage that was longer than the lease every lease looks as if its worker had died. Who takes jobs then must
/// give the living the time to say so: it waits until its own contact is as long as a lease.
#[derive(Debug)]
pub(crate) struct Contact {
    /// The longest time between two answers that is no break. Workers renew their leases three times in a lease, so after a
    /// break that is shorter than half of one they are in time.
    longest_gap: Duration,
    span: Mutex<Span>,
}

#[derive(Debug)]
struct Span {
    since: Instant,
    last: Instant,
}

impl Contact {
    pub(crate) fn new(lease: Duration) -> Self {
        let now = Instant::now();
        Self { longest_gap: lease / 2, span: Mutex::new(Span { since: now, last: now }) }
    }

    /// The store answered a heartbeat.
    pub(crate) fn heard(&self) {
        let now = Instant::now();
        let mut span = self.span.lock().unwrap_or_else(PoisonError::into_inner);
        if now - span.last > self.longest_gap {
            span.since = now;
        }
        span.last = now;
    }

    /// How long there was no break.
    pub(crate) fn lasted(&self) -> Duration {
        let span = self.span.lock().unwrap_or_else(PoisonError::into_inner);
        if span.last.elapsed() > self.longest_gap { Duration::ZERO } else { span.since.elapsed() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_break_of_more_than_half_a_lease_starts_it_anew() {
        let second = Duration::from_secs(1);
        let contact = Contact::new(30 * second);
        for _ in 0..6 {
            advance(10 * second).await;
            contact.heard();
        }
        assert_eq!(contact.lasted(), 60 * second);
        advance(15 * second).await;
        assert_eq!(contact.lasted(), 75 * second);
        advance(second).await;
        assert_eq!(contact.lasted(), Duration::ZERO, "nobody knows whether it is broken");
        contact.heard();
        assert_eq!(contact.lasted(), Duration::ZERO);
        advance(10 * second).await;
        contact.heard();
        assert_eq!(contact.lasted(), 10 * second);
    }
}
