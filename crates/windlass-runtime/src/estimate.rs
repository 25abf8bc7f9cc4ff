use std::time::Duration;

/// The most jobs of one queue that one claim asks for. Beyond it a larger batch gains nothing.
pub(crate) const MAX_CLAIM: usize = 5_000;
/// The most jobs of one queue that wait in memory for a free slot.
const MAX_PREFETCH: f64 = 3.0 * MAX_CLAIM as f64;
/// The most bytes of args of one queue that wait in memory for a free slot.
const MAX_PREFETCH_BYTES: f64 = 32.0 * 1024.0 * 1024.0;
/// How many claim round trips the buffer bridges when full, and when it is refilled. The gap between
/// the two is the batch; a wide gap makes batches grow until the store or `MAX_CLAIM` limits them.
const FULL: f64 = 4.0;
const LOW: f64 = 1.5;
/// Where jobs have keys, one of a key that is quiet waits for the next claim: no longer than so many seconds, unless claims are what limits
/// the rate.
const KEYED_GAP: f64 = 0.005;
/// From so many jobs per second on it is.
const CLAIMS_LIMIT: f64 = 20_000.0;

/// How fast a queue's jobs finish, in jobs per second: follows a rise within a few samples (a starved
/// queue doubles with each claim) and a fall with a half-life, so that a pause does not empty it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    per_second: f64,
}

impl Rate {
    const RISE: f64 = 0.5;
    const HALF_LIFE_SECONDS: f64 = 0.05;

    /// Takes in that `finished` jobs finished in the last `elapsed`.
    pub(crate) fn observe(&mut self, finished: u64, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(1e-6);
        let sample = finished as f64 / seconds;
        let weight = match sample > self.per_second {
            true => Self::RISE,
            false => 1.0 - 0.5_f64.powf(seconds / Self::HALF_LIFE_SECONDS),
        };
        self.per_second += weight * (sample - self.per_second);
    }

    pub(crate) fn per_second(self) -> f64 {
        self.per_second
    }
}

/// How long a call to the store takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    seconds: f64,
}

impl RoundTrip {
    const WEIGHT: f64 = 0.25;
    /// A hung call says nothing about the next one.
    const LONGEST_SECONDS: f64 = 1.0;

    pub(crate) fn observe(&mut self, took: Duration) {
        let sample = took.as_secs_f64().min(Self::LONGEST_SECONDS);
        self.seconds += Self::WEIGHT * (sample - self.seconds);
    }

    pub(crate) fn duration(self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self { seconds: 0.001 }
    }
}

/// How large a queue's jobs are: bytes of args. Follows a rise at once, so that a few large jobs are not
/// followed by thousands, and a fall over several claims.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobSize {
    bytes: f64,
}

impl JobSize {
    const FALL: f64 = 0.25;

    /// Takes in a claim of `jobs` jobs with so many bytes in all.
    pub(crate) fn observe(&mut self, jobs: usize, bytes: usize) {
        let sample = bytes as f64 / jobs.max(1) as f64;
        self.bytes = sample.max(self.bytes + Self::FALL * (sample - self.bytes));
    }
}

/// How many jobs to hold claimed but unstarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefetch {
    /// Up to so many.
    pub(crate) full: usize,
    /// Claim again when so many are left.
    pub(crate) low: usize,
}

impl Prefetch {
    /// Just enough to bridge one claim: nothing for jobs of a minute, thousands for no-op jobs, fewer where
    /// they are large.
    pub(crate) fn of(rate: Rate, claim: RoundTrip, size: JobSize, keyed: bool) -> Self {
        let fit = MAX_PREFETCH_BYTES / size.bytes.max(1.0);
        let per_claim = (rate.per_second * claim.seconds).min(fit / FULL);
        let (low, mut gap) = (per_claim * LOW, per_claim * (FULL - LOW));
        if keyed && rate.per_second < CLAIMS_LIMIT {
            gap = gap.min(rate.per_second * KEYED_GAP);
        }
        let bounded = |jobs: f64| jobs.min(MAX_PREFETCH) as usize;
        Self { full: bounded(low + gap), low: bounded(low) }
    }

    /// No more than so many.
    pub(crate) fn at_most(self, jobs: usize) -> Self {
        Self { full: self.full.min(jobs), low: self.low.min(jobs) }
    }

    /// And so many more, which are good for batches.
    pub(crate) fn and_for_batches(self, jobs: usize) -> Self {
        Self { full: self.full + jobs, low: self.low + jobs / 2 }
    }

    /// How many jobs to ask for, or 0 when it is not worth a call yet.
    pub(crate) fn want(self, concurrency: usize, running: usize, ready: usize) -> usize {
        // Most slots are free: what is ready starts at once, so there is room for more.
        let roomy = (running + ready) * 4 < concurrency * 3;
        if ready > self.low && !roomy {
            return 0;
        }
        (concurrency + self.full).saturating_sub(running + ready).min(MAX_CLAIM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn steady(per_second: u64) -> Rate {
        let mut rate = Rate::default();
        (0..100).for_each(|_| rate.observe(per_second, Duration::from_secs(1)));
        rate
    }

    fn trip(took: Duration) -> RoundTrip {
        let mut trip = RoundTrip::default();
        (0..100).for_each(|_| trip.observe(took));
        trip
    }

    #[test]
    fn minute_jobs_are_fetched_one_per_free_slot() {
        let prefetch = Prefetch::of(steady(2), trip(2 * MS), JobSize::default(), false);
        assert_eq!(prefetch, Prefetch { full: 0, low: 0 });
        assert_eq!(prefetch.want(100, 99, 0), 1);
        assert_eq!(prefetch.want(100, 100, 0), 0);
        assert_eq!(prefetch.want(100, 0, 0), 100);
    }

    #[test]
    fn no_op_jobs_are_fetched_by_the_thousand_and_bounded() {
        let prefetch = Prefetch::of(steady(400_000), trip(5 * MS), JobSize::default(), false);
        assert!((7_900..=8_100).contains(&prefetch.full), "{prefetch:?}");
        assert_eq!(prefetch.want(100, 2, 0), MAX_CLAIM);
        assert_eq!(prefetch.want(100, 2, prefetch.low + 1), 0, "enough is there");
        assert_eq!(Prefetch::default().want(10, 0, 1), 9, "one job does not end the demand of ten slots");
        let extreme =
            Prefetch::of(steady(u64::MAX / 2), trip(Duration::from_secs(9)), JobSize::default(), false);
        assert_eq!(extreme.full, 3 * MAX_CLAIM);
    }

    #[test]
    fn where_jobs_have_keys_the_next_claim_is_soon_unless_claims_limit_the_rate() {
        let of = |rate, took, keyed| Prefetch::of(steady(rate), trip(took), JobSize::default(), keyed);
        let gap = |prefetch: Prefetch| prefetch.full - prefetch.low;
        assert_eq!(gap(of(10_000, 20 * MS, true)), 50, "5 ms");
        assert_eq!(gap(of(10_000, MS, true)), gap(of(10_000, MS, false)), "it is sooner already");
        assert_eq!(of(10_000, 20 * MS, true).low, of(10_000, 20 * MS, false).low);
        assert_eq!(of(100_000, 20 * MS, true), of(100_000, 20 * MS, false));
    }

    #[test]
    fn large_jobs_are_fetched_by_their_bytes() {
        let mut size = JobSize::default();
        let full = |size| Prefetch::of(steady(400_000), trip(5 * MS), size, false).full;
        size.observe(1_000, 20_000);
        assert_eq!(full(size), full(JobSize::default()), "small ones by their number");
        size.observe(100, 100 * 1024 * 1024);
        let prefetch = Prefetch::of(steady(400_000), trip(5 * MS), size, false);
        assert_eq!(prefetch, Prefetch { full: 32, low: 12 });
        assert_eq!(prefetch.want(10, 10, 12), 20);
        assert_eq!(prefetch.want(10, 10, 13), 0, "not one by one");
        (0..50).for_each(|_| size.observe(1_000, 20_000));
        assert_eq!(full(size), full(JobSize::default()), "they are small again");
        let mut huge = JobSize::default();
        huge.observe(1, 64 * 1024 * 1024);
        assert_eq!(
            Prefetch::of(steady(400_000), trip(5 * MS), huge, false).want(10, 4, 0),
            6,
            "one for each free slot"
        );
    }

    #[test]
    fn a_starved_queue_reaches_full_batches_within_a_few_claims() {
        // Every claim is worked off at once and takes 1 ms: only the claims limit the rate.
        let (mut rate, claim, mut rounds) = (Rate::default(), trip(MS), 0);
        let mut batch = 100;
        while batch < MAX_CLAIM {
            rate.observe(batch as u64, MS);
            batch = Prefetch::of(rate, claim, JobSize::default(), false).want(100, 0, 0);
            rounds += 1;
            assert!(rounds < 20, "stuck at {batch}");
        }
    }

    #[test]
    fn a_rate_falls_by_half_in_its_half_life() {
        let mut rate = steady(1_000);
        (0..50).for_each(|_| rate.observe(0, MS));
        assert!((490.0..510.0).contains(&rate.per_second()), "{rate:?}");
    }
}
