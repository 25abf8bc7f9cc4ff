use std::sync::{Mutex, PoisonError};

/// Where around a commit the connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutPoint {
    /// The server never hears of the commit: the transaction is rolled back.
    BeforeForward,
    /// The server's answer is awaited and kept back: the transaction is committed (or refused), and the client
    /// does not know.
    AfterForward,
    /// The server gets the commit and the reset at once: either may win.
    Racing,
}

/// Which commits are cut.
#[derive(Clone, Copy, Debug)]
pub enum Chance {
    /// The n-th, the 2n-th and so on, of all connections together.
    EveryNth(u64),
    /// Each with this probability.
    Probability(f64),
}

type Predicate = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Cuts connections around the commits of transactions that wrote.
///
/// A commit is a `COMMIT` (or `END`) of either protocol, or the end of a transaction of its own: the Sync after
/// an Execute outside a transaction block, or a simple query outside one. It counts when a statement of the
/// transaction satisfies the predicate, by default [`super::writes`]. A COPY outside a transaction block counts
/// in the extended protocol only.
pub struct CommitCuts {
    points: Vec<CutPoint>,
    chance: Chance,
    counts: Predicate,
    state: Mutex<(u64, fastrand::Rng)>,
}

impl CommitCuts {
    /// Cuts at one of `points`, which one by the seed. Without points nothing is cut.
    #[must_use]
    pub fn new(points: &[CutPoint], chance: Chance, seed: u64) -> Self {
        Self {
            points: points.to_vec(),
            chance,
            counts: Box::new(super::writes),
            state: Mutex::new((0, fastrand::Rng::with_seed(seed))),
        }
    }

    /// Only transactions with a statement whose text (its first 2 KiB) satisfies the predicate count.
    #[must_use]
    pub fn counting(self, predicate: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { counts: Box::new(predicate), ..self }
    }

    pub(super) fn counts(&self, sql: &str) -> bool {
        (self.counts)(sql)
    }

    /// Says of the next commit where it is cut.
    pub(super) fn decide(&self) -> Option<CutPoint> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, random) = &mut *state;
        *seen += 1;
        let is_cut = match self.chance {
            Chance::EveryNth(n) => seen.is_multiple_of(n.max(1)),
            Chance::Probability(share) => random.f64() < share,
        };
        if is_cut && !self.points.is_empty() {
            Some(self.points[random.usize(..self.points.len())])
        } else {
            None
        }
    }
}
