use std::time::Duration;
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
#[derive(Clone, Copy, Debug)]
pub(crate) enum Permissions {
    /// Nothing limits how many start.
    Unlimited,
    Limited(Limited),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limited {
    /// `None` until the store said.
    rate: Option<RateLimit>,
    /// So many until then.
    left: u32,
    until: Instant,
    /// From then on there are enough for a job that costs so much.
    next: Instant,
    next_cost: u32,
    /// There were fewer than what was asked for.
    spent: bool,
}

impl Limited {
    fn cost(&self, cost: u32) -> u32 {
        self.rate.map_or(cost, |rate| rate.cost(cost))
    }
}

impl Permissions {
    /// None yet.
    pub(crate) fn none() -> Self {
        let now = Instant::now();
        Self::Limited(Limited { rate: None, left: 0, until: now, next: now, next_cost: 1, spent: false })
    }

    /// Whether a job that costs so much may start now.
    pub(crate) fn allow(&self, cost: u32) -> bool {
        self.fit([cost]) > 0
    }

    /// How many of the jobs that cost this may start now, in their order.
    pub(crate) fn fit(&self, costs: impl IntoIterator<Item = u32>) -> usize {
        let Self::Limited(limited) = self else { return costs.into_iter().count() };
        if limited.left == 0 || limited.until <= Instant::now() {
            return 0;
        }
        let left = costs.into_iter().scan(limited.left, |left, cost| {
            *left = left.checked_sub(limited.cost(cost))?;
            Some(())
        });
        left.count()
    }

    /// How many of the jobs of a batch, which cost this, may start now: none while there may be enough for more of them, so that these are asked for together.
    pub(crate) fn fit_together(&self, costs: impl Iterator<Item = u32> + Clone) -> usize {
        let fit = self.fit(costs.clone());
        match self {
            Self::Limited(limited) if !limited.spent && fit < costs.count() => 0,
            _ => fit,
        }
    }

    /// A job starts that costs so much, which is [allowed](Self::allow).
    pub(crate) fn spend(&mut self, cost: u32) {
        if let Self::Limited(limited) = self {
            let cost = if cfg!(feature = "bug_cheap_starts") { 1 } else { cost };
            limited.left -= limited.cost(cost);
        }
    }

    /// When to ask for more, if this is next.
    pub(crate) fn due(&self, next: Next) -> Option<Instant> {
        let Self::Limited(limited) = self else { return None };
        let cost = match limited.spent || next.jobs == 1 {
            true => limited.cost(next.cost),
            false => next.together,
        };
        Some(if limited.left < cost { limited.next } else { limited.until })
    }

    /// When the next job may start, if not now; `cost`: what it costs, if that is known.
    pub(crate) fn next(&self, cost: Option<u32>) -> Option<Instant> {
        match self {
            Self::Limited(limited) if limited.left < limited.cost(cost.unwrap_or(limited.next_cost)) => {
                Some(limited.next)
            }
            _ => None,
        }
    }

    /// Which of the jobs that cost this to ask for: none while the first are allowed, of which so many start together.
    pub(crate) fn missing(&self, costs: impl Iterator<Item = u32> + Clone, together: usize) -> Starts {
        match self {
            Self::Limited(_) if self.fit_together(costs.clone().take(together)) == 0 => costs.collect(),
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
        *self = Self::Limited(match *self {
            Self::Limited(before) if new == 0 && before.left > 0 && now < before.until => {
                match asked.is_empty() {
                    true => Limited { rate: Some(rate), ..before },
                    false => Limited { rate: Some(rate), next, next_cost, spent: true, ..before },
                }
            }
            _ => Limited {
                rate: Some(rate),
                left: new,
                until: asked_at + rate.grace(),
                next,
                next_cost,
                spent,
            },
        });
    }
}
