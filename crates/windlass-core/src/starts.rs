use crate::RateLimit;

/// Jobs that a worker could start now, in their order, by what each [costs](crate::Attributes::cost).
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{RateLimit, Starts};
///
/// let starts: Starts = [1, 1, 60, 50].into_iter().collect();
/// let rate = RateLimit::new(100, Duration::from_secs(60));
/// assert_eq!(starts.fitting(&rate, 100), (62, Some(50)), "the fourth is next");
/// assert_eq!(Starts::from(5).fitting(&rate, 100), (5, None));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    /// How many jobs beside each other cost how much.
    runs: Vec<(u32, u32)>,
}

impl Starts {
    /// The most runs of jobs that cost the same: more jobs are not worth asking for at once.
    pub const MAX_RUNS: usize = 256;

    /// Adds a job behind the others. Whether there was room for it.
    pub fn push(&mut self, cost: u32) -> bool {
        let is_full = self.runs.len() >= Self::MAX_RUNS;
        match self.runs.last_mut() {
            Some((jobs, last)) if *last == cost => *jobs = jobs.saturating_add(1),
            _ if is_full => return false,
            _ => self.runs.push((1, cost)),
        }
        true
    }

    /// Runs of jobs that cost the same: how many, and how much each.
    pub fn runs(&self) -> &[(u32, u32)] {
        &self.runs
    }

    /// How many jobs.
    pub fn jobs(&self) -> u32 {
        self.runs.iter().fold(0, |jobs, (more, _)| jobs.saturating_add(*more))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What they cost together, each [as the rate counts it](RateLimit::cost).
    pub fn cost(&self, rate: &RateLimit) -> u64 {
        let each = |&(jobs, cost): &(u32, u32)| u64::from(jobs) * u64::from(rate.cost(cost));
        self.runs.iter().map(each).sum()
    }

    /// What the first of them costs.
    pub fn first(&self, rate: &RateLimit) -> Option<u32> {
        self.runs.first().map(|(_, cost)| rate.cost(*cost))
    }

    /// What as many of them as fit cost, in their order, if at most `most` permissions are there; and what the next costs.
    pub fn fitting(&self, rate: &RateLimit, most: u32) -> (u32, Option<u32>) {
        let mut sum = 0;
        for (jobs, cost) in &self.runs {
            let cost = rate.cost(*cost);
            let fit = (*jobs).min((most - sum) / cost);
            sum += fit * cost;
            if fit < *jobs {
                return (sum, Some(cost));
            }
        }
        (sum, None)
    }
}

impl From<u32> for Starts {
    /// So many jobs that cost 1 each.
    fn from(jobs: u32) -> Self {
        Self { runs: if jobs == 0 { Vec::new() } else { vec![(jobs, 1)] } }
    }
}

impl FromIterator<u32> for Starts {
    /// Jobs that cost this each, as far as there is room.
    fn from_iter<T: IntoIterator<Item = u32>>(costs: T) -> Self {
        let mut starts = Self::default();
        for cost in costs {
            if !starts.push(cost) {
                break;
            }
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn starts(costs: &[u32]) -> Starts {
        costs.iter().copied().collect()
    }

    #[test]
    fn jobs_of_one_cost_are_one_run() {
        assert_eq!(starts(&[1, 1, 5, 5, 5, 1]).runs(), [(2, 1), (3, 5), (1, 1)]);
        assert_eq!(starts(&[1; 9]), Starts::from(9));
        assert_eq!((starts(&[]), Starts::from(0).is_empty()), (Starts::from(0), true));
        let many: Starts = (1..1_000).collect();
        assert_eq!((many.runs().len(), many.jobs()), (Starts::MAX_RUNS, Starts::MAX_RUNS as u32));
    }

    #[test]
    fn jobs_fit_in_their_order() {
        let rate = RateLimit::new(100, Duration::from_secs(1));
        let mixed = starts(&[10, 10, 60, 30]);
        for (most, fits) in [
            (0, (0, Some(10))),
            (9, (0, Some(10))),
            (10, (10, Some(10))),
            (79, (20, Some(60))),
            (80, (80, Some(30))),
            (110, (110, None)),
            (u32::MAX, (110, None)),
        ] {
            assert_eq!(mixed.fitting(&rate, most), fits, "{most}");
        }
        assert_eq!((mixed.cost(&rate), mixed.first(&rate)), (110, Some(10)));
    }

    #[test]
    fn what_costs_more_than_the_rate_takes_all_of_it() {
        let rate = RateLimit::new(100, Duration::from_secs(1));
        let dear = starts(&[1_000_000, 1_000_000]);
        assert_eq!((dear.first(&rate), dear.cost(&rate)), (Some(100), 200));
        assert_eq!(dear.fitting(&rate, 100), (100, Some(100)));
    }
}
