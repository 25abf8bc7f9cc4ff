use std::time::Duration;
use windlass_core::{Error, ErrorKind, Result};

/// How many jobs of a kind run at once in one call of their handler.
///
/// ```
/// use std::time::Duration;
/// use windlass_runtime::Batching;
/// let batching = Batching::new(500, Duration::from_millis(200)).unwrap();
/// assert_eq!((batching.most(), batching.wait().as_millis()), (500, 200));
/// let error = Batching::new(0, Duration::ZERO).unwrap_err();
/// assert_eq!(error.to_string(), "a batch has 1 to 10000 jobs, got 0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    most: usize,
    wait: Duration,
}

impl Batching {
    /// The largest batch.
    pub const MAX_JOBS: usize = 10_000;
    /// The longest that a job may wait for its batch: others could run it meanwhile.
    pub const MAX_WAIT: Duration = Duration::from_secs(600);

    /// Up to `most` jobs run at once. The first waits this long for others, from when the worker claimed it; with
    /// [`Duration::ZERO`] it takes those that the worker has at hand.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for batches of no job or of more than [`Self::MAX_JOBS`], and for a wait beyond
    /// [`Self::MAX_WAIT`].
    pub fn new(most: usize, wait: Duration) -> Result<Self> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        if !(1..=Self::MAX_JOBS).contains(&most) {
            return refuse(format!("a batch has 1 to {} jobs, got {most}", Self::MAX_JOBS));
        }
        if wait > Self::MAX_WAIT {
            return refuse(format!("a batch waits for {:?} at most, got {wait:?}", Self::MAX_WAIT));
        }
        Ok(Self { most, wait })
    }

    /// The same, waiting for ever.
    #[cfg(feature = "testing")]
    pub(crate) fn patient(self) -> Self {
        Self { wait: Duration::MAX, ..self }
    }

    /// How many jobs a batch has at most.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How long the first job of a batch waits for others.
    pub fn wait(&self) -> Duration {
        self.wait
    }
}
