use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;
use windlass_core::{RateLimit, Share, Starts};

/// When to ask for permissions again where the store does not say.
const NEXT_START: Duration = Duration::from_millis(1);

/// What starts next: a job, or a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    /// What its first job costs.
    pub(crate) cost: u32,
    pub(crate) jobs: usize,
    /// What all of them cost.
    pub(crate) together: u32,
}

impl Next {
    /// A job that costs so much.
    pub(crate) fn one(cost: u32) -> Self {
        Self { cost, jobs: 1, together: cost }
    }

    /// The jobs of a batch, which cost this.
    pub(crate) fn batch(costs: impl ExactSizeIterator<Item = u32> + Clone) -> Option<Self> {
        let cost = costs.clone().next()?;
        Some(Self { cost, jobs: costs.len(), together: costs.fold(0, u32::saturating_add) })
    }
}

/// Permissions to start jobs of a queue, as many as a job costs.
#[derive(Debug)]
pub(crate) enum Permissions {
    /// Nothing limits how many start.
    Unlimited,
    Limited(Limited),
}

#[derive(Debug)]
pub(crate) struct Limited {
    /// `None` until the store said.
    rate: Option<RateLimit>,
    /// What is left of what the store gave, oldest first: it counts all of it, so none is dropped for a later one.
    grants: VecDeque<Grant>,
    /// From then on there are enough for a job that costs so much.
    next: Instant,
    next_cost: u32,
    /// There were fewer than what was asked for.
    spent: bool,
}

/// So many until then.
#[derive(Clone, Copy, Debug)]
struct Grant {
    left: u32,
    until: Instant,
}

fn sum<'a>(grants: impl Iterator<Item = &'a Grant>) -> u32 {
    grants.fold(0, |sum, grant| sum.saturating_add(grant.left))
}

impl Limited {
    /// How many there are, also those that may be over by now.
    fn left(&self) -> u32 {
        sum(self.grants.iter())
    }

    /// Until when there are so many, if no other uses them.
    fn until(&self, cost: u32) -> Option<Instant> {
        let mut sum = 0_u32;
        let enough = self.grants.iter().rev().find(|grant| {
            sum = sum.saturating_add(grant.left);
            sum >= cost
        });
        enough.map(|grant| grant.until)
    }

    /// Uses so many, those first that end first.
    fn spend(&mut self, cost: u32) {
        self.forget_over(Instant::now());
        let mut missing = cost;
        for grant in &mut self.grants {
            let used = grant.left.min(missing);
            (grant.left, missing) = (grant.left - used, missing - used);
        }
    }

    fn forget_over(&mut self, now: Instant) {
        self.grants.retain(|grant| grant.left > 0 && grant.until > now);
    }

    fn cost(&self, cost: u32) -> u32 {
        self.rate.map_or(cost, |rate| rate.cost(cost))
    }
}

impl Permissions {
    /// None yet.
    pub(crate) fn none() -> Self {
        let now = Instant::now();
        let grants = VecDeque::new();
        Self::Limited(Limited { rate: None, grants, next: now, next_cost: 1, spent: false })
    }

    /// Whether a job that costs so much may start now.
    pub(crate) fn allow(&self, cost: u32) -> bool {
        self.fit([cost]) > 0
    }

    /// How many of the jobs that cost this may start now, in their order.
    pub(crate) fn fit(&self, costs: impl IntoIterator<Item = u32>) -> usize {
        let Self::Limited(limited) = self else { return costs.into_iter().count() };
        let now = Instant::now();
        let left = sum(limited.grants.iter().filter(|grant| grant.until > now));
        let left = costs.into_iter().scan(left, |left, cost| {
            *left = left.checked_sub(limited.cost(cost))?;
            Some(())
        });
        left.count()
    }

    /// How many of the jobs of a batch, which cost this, may start now: none while there may be enough for the first `together` of them, so that
    /// these are asked for together.
    pub(crate) fn fit_together(&self, costs: impl Iterator<Item = u32> + Clone, together: usize) -> usize {
        let fit = self.fit(costs.clone());
        match self {
            Self::Limited(limited) if !limited.spent && fit < costs.take(together).count() => 0,
            _ => fit,
        }
    }

    /// A job starts that costs so much, which is [allowed](Self::allow).
    pub(crate) fn spend(&mut self, cost: u32) {
        if let Self::Limited(limited) = self {
            let cost = if cfg!(feature = "bug_cheap_starts") { 1 } else { cost };
            limited.spend(limited.cost(cost));
        }
    }

    /// When to ask for more, if this is next.
    pub(crate) fn due(&self, next: Next) -> Option<Instant> {
        let Self::Limited(limited) = self else { return None };
        let cost = match limited.spent || next.jobs == 1 {
            true => limited.cost(next.cost),
            false => next.together,
        };
        Some(limited.until(cost).unwrap_or(limited.next))
    }

    /// When the next job may start, if not now; `cost`: what it costs, if that is known.
    pub(crate) fn next(&self, cost: Option<u32>) -> Option<Instant> {
        match self {
            Self::Limited(limited) if limited.left() < limited.cost(cost.unwrap_or(limited.next_cost)) => {
                Some(limited.next)
            }
            _ => None,
        }
    }

    /// Which of the jobs that cost this to ask for: none while the first are allowed, of which so many start together.
    pub(crate) fn missing(&self, costs: impl Iterator<Item = u32> + Clone, together: usize) -> Starts {
        match self {
            Self::Limited(_) if self.fit_together(costs.clone().take(together), together) == 0 => {
                costs.collect()
            }
            _ => Starts::default(),
        }
    }

    /// The store's answer to what was asked for then.
    pub(crate) fn set(&mut self, share: &Share, asked: &Starts, asked_at: Instant) {
        let now = Instant::now();
        let (Some(rate), Some(new)) = (share.limits.rate, share.starts) else {
            *self = Self::Unlimited;
            return;
        };
        let next = now + share.next_start.unwrap_or(NEXT_START);
        let unfit = asked.fitting(&rate, new).1;
        let next_cost = unfit.unwrap_or(1);
        // Of more runs than fit into a question nothing is known.
        let spent = unfit.is_some() || asked.runs().len() >= Starts::MAX_RUNS;
        let mut grants = match self {
            Self::Limited(before) => std::mem::take(&mut before.grants),
            Self::Unlimited => VecDeque::new(),
        };
        grants.push_back(Grant { left: new, until: asked_at + rate.grace() });
        let mut limited = Limited { rate: Some(rate), grants, next, next_cost, spent };
        limited.forget_over(now);
        if let Self::Limited(before) = self
            && asked.is_empty()
            && limited.left() > 0
        {
            // Nothing is said of when there are more.
            (limited.next, limited.next_cost, limited.spent) = (before.next, before.next_cost, before.spent);
        }
        *self = Self::Limited(limited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::QueueLimits;

    const SECOND: Duration = Duration::from_secs(1);

    /// The store gives so many to who asked for so many just now.
    fn give(permissions: &mut Permissions, given: u32, asked: u32) {
        let limits = QueueLimits::default().with_rate(RateLimit::new(100, 20 * SECOND));
        let share = Share { limits, starts: Some(given), ..Share::UNLIMITED };
        permissions.set(&share, &Starts::from(asked), Instant::now());
    }

    fn fit(permissions: &Permissions) -> usize {
        permissions.fit([1; 1_000])
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_given_is_there_until_its_own_time_is_over() {
        let mut permissions = Permissions::none();
        assert_eq!(fit(&permissions), 0);
        give(&mut permissions, 24, 24);
        tokio::time::advance(SECOND / 2).await;
        give(&mut permissions, 30, 30);
        assert_eq!(fit(&permissions), 54, "the store counts both");
        (0..4).for_each(|_| permissions.spend(1));
        give(&mut permissions, 0, 0);
        assert_eq!(fit(&permissions), 50);
        tokio::time::advance(SECOND / 2).await;
        assert_eq!(fit(&permissions), 30, "of the first ones four were used, and the rest is over");
        permissions.spend(1);
        tokio::time::advance(SECOND / 2).await;
        assert_eq!(fit(&permissions), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn more_are_asked_for_when_those_that_are_needed_are_over() {
        let (began, mut permissions) = (Instant::now(), Permissions::none());
        give(&mut permissions, 24, 24);
        tokio::time::advance(SECOND / 2).await;
        give(&mut permissions, 30, 30);
        let due = |jobs| permissions.due(Next { cost: 1, jobs, together: jobs as u32 });
        assert_eq!(due(30), Some(began + SECOND * 3 / 2));
        assert_eq!(due(31), Some(began + SECOND));
        assert_eq!(due(55), Some(Instant::now() + NEXT_START), "there were never so many");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_starts_with_those_for_which_was_asked_together() {
        let mut permissions = Permissions::none();
        give(&mut permissions, 24, 24);
        let costs = [1; 30];
        assert_eq!(permissions.fit_together(costs.into_iter(), 24), 24, "six came later");
        assert_eq!(permissions.fit_together(costs.into_iter(), 30), 0, "there may be enough for all");
        give(&mut permissions, 0, 30);
        assert_eq!(permissions.fit_together(costs.into_iter(), 30), 24, "there are no more");
    }
}
