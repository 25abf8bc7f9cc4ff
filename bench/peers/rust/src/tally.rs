use std::{
    collections::BTreeMap,
    sync::{
        OnceLock,
        atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc::UnboundedSender;

/// Jobs of a chunk of counters.
const CHUNK: usize = 1 << 16;
/// Chunks at most: a thousand million jobs.
const CHUNKS: usize = 1 << 14;
/// Seconds of the series at most; later ones count for the last.
const SECONDS: usize = 3_600;

/// How often each job was handled, and how many in each second. The handler of every system.
pub struct Tally {
    counters: Vec<OnceLock<Box<[AtomicU8]>>>,
    handled: AtomicU64,
    began: OnceLock<Instant>,
    seconds: Vec<AtomicU64>,
    sleep: Duration,
    starts: Option<UnboundedSender<(u64, Instant)>>,
}

impl Tally {
    /// Handlers sleep so long; each start is told to `starts`.
    pub fn new(sleep: Duration, starts: Option<UnboundedSender<(u64, Instant)>>) -> Self {
        Self {
            counters: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            handled: AtomicU64::new(0),
            began: OnceLock::new(),
            seconds: (0..SECONDS).map(|_| AtomicU64::new(0)).collect(),
            sleep,
            starts,
        }
    }

    /// Begins the first second.
    pub(crate) fn begin(&self) {
        self.began.get_or_init(Instant::now);
    }

    /// Handles a job.
    ///
    /// # Panics
    ///
    /// When the id is none that a scenario gives.
    pub async fn handle(&self, id: u64) {
        if let Some(starts) = &self.starts {
            // Nobody listens any more once the last sample is taken.
            let _ = starts.send((id, Instant::now()));
        }
        if !self.sleep.is_zero() {
            tokio::time::sleep(self.sleep).await;
        }
        self.count(id as usize);
    }

    fn count(&self, id: usize) {
        let chunk =
            self.counters.get(id / CHUNK).unwrap_or_else(|| panic!("job {id} is beyond the counters"));
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU8::new(0)).collect());
        // Past 255 it would begin again at none.
        let _ = chunk[id % CHUNK].fetch_update(Relaxed, Relaxed, |count| count.checked_add(1));
        let elapsed = self.began.get_or_init(Instant::now).elapsed().as_secs() as usize;
        self.seconds[elapsed.min(SECONDS - 1)].fetch_add(1, Relaxed);
        self.handled.fetch_add(1, Relaxed);
    }

    pub(crate) fn handled(&self) -> u64 {
        self.handled.load(Relaxed)
    }

    /// Jobs handled in each second until now.
    pub(crate) fn per_second(&self) -> Vec<u64> {
        let mut seconds: Vec<u64> = self.seconds.iter().map(|second| second.load(Relaxed)).collect();
        let end = seconds.iter().rposition(|&jobs| jobs > 0).map_or(0, |last| last + 1);
        seconds.truncate(end);
        seconds
    }

    /// The counters from the first job on, as (count, how many jobs in a row have it).
    pub(crate) fn runs(&self) -> Vec<(u8, u64)> {
        let mut runs: Vec<(u8, u64)> = Vec::new();
        let mut add = |count: u8, jobs: u64| match runs.last_mut() {
            Some((last, length)) if *last == count => *length += jobs,
            _ => runs.push((count, jobs)),
        };
        let end = self.counters.iter().rposition(|chunk| chunk.get().is_some()).map_or(0, |last| last + 1);
        for chunk in &self.counters[..end] {
            match chunk.get() {
                Some(counters) => counters.iter().for_each(|counter| add(counter.load(Relaxed), 1)),
                None => add(0, CHUNK as u64),
            }
        }
        runs
    }
}

/// Verifies that each of `jobs` jobs was handled exactly once, by the counters of all workers together.
pub(crate) fn verify(jobs: u64, workers: &[Vec<(u8, u64)>]) -> anyhow::Result<()> {
    let mut counts = vec![0_u32; jobs as usize];
    let mut strangers = 0;
    for runs in workers {
        let mut next = 0;
        for &(count, length) in runs {
            for id in next..next + length as usize {
                match counts.get_mut(id) {
                    Some(sum) => *sum += u32::from(count),
                    None => strangers += u64::from(count),
                }
            }
            next += length as usize;
        }
    }
    let mut wrong: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for (id, &count) in counts.iter().enumerate().filter(|&(_, &count)| count != 1) {
        wrong.entry(count).or_insert((0, id)).0 += 1;
    }
    if wrong.is_empty() && strangers == 0 {
        return Ok(());
    }
    let found =
        wrong.iter().map(|(times, (jobs, first))| format!("{jobs} jobs {times} times (first: {first})"));
    let mut found: Vec<String> = found.collect();
    if strangers > 0 {
        found.push(format!("{strangers} jobs that were not enqueued"));
    }
    anyhow::bail!("not each of the {jobs} jobs was handled once: {}", found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::{Tally, verify};
    use std::time::Duration;

    #[tokio::test]
    async fn each_job_must_be_handled_once_by_all_workers_together() {
        let (one, two) = (Tally::new(Duration::ZERO, None), Tally::new(Duration::ZERO, None));
        for id in 0..100_000 {
            if id % 3 == 0 { &one } else { &two }.handle(id).await;
        }
        assert_eq!(one.handled() + two.handled(), 100_000);
        assert_eq!(one.per_second().iter().sum::<u64>(), one.handled());
        verify(100_000, &[one.runs(), two.runs()]).expect("all are handled");

        let missing = verify(100_001, &[one.runs(), two.runs()]).expect_err("one is missing");
        assert!(missing.to_string().contains("1 jobs 0 times (first: 100000)"), "{missing}");
        two.handle(7).await;
        let twice = verify(100_000, &[one.runs(), two.runs()]).expect_err("one was handled twice");
        assert!(twice.to_string().contains("1 jobs 2 times (first: 7)"), "{twice}");
        let stranger = verify(99_999, &[one.runs(), two.runs()]).expect_err("one was not enqueued");
        assert!(stranger.to_string().contains("1 jobs that were not enqueued"), "{stranger}");
    }
}
