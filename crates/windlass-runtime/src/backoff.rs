use std::time::Duration;

/// How a delay grows: it doubles from a first step up to a longest one. Each is spread by ± 20 %, so that workers
/// that lost their store together do not all come back together.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
    random: fn() -> f64,
}

const JITTER: f64 = 0.2;

impl Backoff {
    /// While the store cannot be reached.
    pub(crate) fn outage(random: fn() -> f64) -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(5), random)
    }

    pub(crate) fn new(first: Duration, longest: Duration, random: fn() -> f64) -> Self {
        Self { first, longest, next: first, random }
    }

    /// The next delay.
    pub(crate) fn step(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.longest);
        spread(delay, (self.random)())
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// `delay` ± 20 %; `random`, in 0..1, says where in that range.
pub(crate) fn spread(delay: Duration, random: f64) -> Duration {
    delay.mul_f64(1.0 + JITTER * (2.0 * random - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_and_starts_over() {
        let mut backoff = Backoff::outage(|| 0.5);
        let delays: Vec<u64> = (0..8).map(|_| backoff.step().as_millis() as u64).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.step(), Duration::from_millis(100));
        assert_eq!(spread(Duration::from_secs(10), 0.0), Duration::from_secs(8));
    }
}
