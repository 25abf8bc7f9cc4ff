//! How a claim is divided among keys: start-time fair queueing, arithmetic only.

use std::{cmp::Reverse, collections::BinaryHeap};

/// The virtual time that one job costs a key of weight 1.
const COST: i64 = 1_000_000;

/// A key that may have jobs to hand out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) key: String,
    /// When its next job is due, in virtual time.
    pub(crate) vt: i64,
    pub(crate) weight: i64,
    /// How many it may have at most.
    pub(crate) most: i64,
}

impl Turn {
    /// Its virtual time after so many jobs.
    pub(crate) fn after(&self, jobs: i64) -> i64 {
        self.vt + jobs * (COST / self.weight.max(1))
    }
}

/// The turns of `jobs` jobs, in order: indexes into `turns`.
pub(crate) fn divide(turns: &[Turn], jobs: usize) -> Vec<usize> {
    let mut next: BinaryHeap<_> = turns
        .iter()
        .enumerate()
        .filter(|(_, turn)| turn.most > 0)
        .map(|(nth, turn)| Reverse((turn.vt, nth, 0)))
        .collect();
    let mut order = Vec::with_capacity(jobs.min(next.len().max(1) * 8));
    while order.len() < jobs
        && let Some(Reverse((_, nth, had))) = next.pop()
    {
        order.push(nth);
        if had + 1 < turns[nth].most {
            next.push(Reverse((turns[nth].after(had + 1), nth, had + 1)));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(key: &str, vt: i64, weight: i64, most: i64) -> Turn {
        Turn { key: key.to_owned(), vt, weight, most }
    }

    #[test]
    fn who_has_had_less_goes_first_and_weights_divide_the_rest() {
        let equal = [turn("a", 2 * COST, 1, i64::MAX), turn("b", 0, 1, i64::MAX)];
        assert_eq!(divide(&equal, 5), [1, 1, 0, 1, 0]);
        let weighted = [turn("a", 0, 1, i64::MAX), turn("b", 0, 3, i64::MAX)];
        let order = divide(&weighted, 4_000);
        let b = order.iter().filter(|nth| **nth == 1).count();
        assert!((2_999..=3_001).contains(&b), "{b} of 4000");
        let limited = [turn("a", 0, 1, 1), turn("b", 0, 1, 0), turn("c", 0, 1, 2)];
        assert_eq!(divide(&limited, 9), [0, 2, 2]);
        assert_eq!(divide(&limited, 1), [0]);
        assert_eq!(divide(&[], 1), [0_usize; 0]);
    }
}
