//! PostgreSQL: every session is a connection, and a scenario's operations are stepped through their
//! transactions in the order asked for.

mod calls;
mod place;
mod schema;
mod sessions;
mod stepper;

use super::{
    order,
    report::{Failure, Outcome, Plan},
    round::Round,
    scenario::Scenario,
};
use anyhow::Context;
use place::Place;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{sync::Mutex, task::JoinSet};

/// How many orders run at once, each on connections and a schema of its own, unless somebody asks for fewer.
const PLACES: usize = 4;
/// What runs the test of every scenario.
const REPEAT: &str = "scripts/with-postgres cargo test -p windlass-chaos --test server every_order";
/// After how many failing orders a scenario is given up: more say nothing new.
const MOST_FAILURES: usize = 5;

/// A PostgreSQL server with places where orders run. Places are kept for the next scenario that wants the
/// same schema, because making one takes as long as dozens of orders.
pub struct Server {
    url: String,
    places: usize,
    free: Mutex<Vec<Place>>,
}

impl Server {
    /// Names the server; its user must be a superuser, to shorten the wait for deadlocks.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), places: PLACES, free: Mutex::new(Vec::new()) }
    }

    /// With so many places: for a few orders of a schema that nothing else wants.
    #[must_use]
    pub fn with_places(mut self, places: usize) -> Self {
        self.places = places;
        self
    }

    /// Runs the orders of one scenario that the plan asks for.
    ///
    /// # Errors
    /// When the server cannot be reached or the schema cannot be made; broken rules are in the outcome.
    pub async fn run(self: &Arc<Self>, scenario: &Scenario, plan: &Plan) -> anyhow::Result<Outcome> {
        let started = std::time::Instant::now();
        let total = order::count(&scenario.steps());
        let job = Arc::new(Job {
            scenario: scenario.clone(),
            numbers: plan.numbers(total)?,
            next: AtomicUsize::new(0),
            failures: Mutex::new(Vec::new()),
        });
        let mut tasks = JoinSet::new();
        for _ in 0..self.places.min(job.numbers.len()) {
            let (server, job) = (Arc::clone(self), Arc::clone(&job));
            tasks.spawn(async move {
                let mut place = server.take(&job.scenario).await?;
                job.work(&mut place).await?;
                server.free.lock().await.push(place);
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        let failures = std::mem::take(&mut *job.failures.lock().await);
        Ok(Outcome::new(scenario.name, total, job.numbers.len(), started.elapsed(), failures, REPEAT))
    }

    /// Removes the schemas that were made.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn close(&self) -> anyhow::Result<()> {
        for place in std::mem::take(&mut *self.free.lock().await) {
            place.leave().await?;
        }
        Ok(())
    }

    async fn take(&self, scenario: &Scenario) -> anyhow::Result<Place> {
        let mut free = self.free.lock().await;
        let fits = |place: &Place| place.fits(scenario);
        match free.iter().position(fits) {
            Some(index) => Ok(free.swap_remove(index)),
            None => {
                drop(free);
                Place::make(&self.url, scenario).await
            }
        }
    }
}

/// The orders of one scenario that are still to be tried, for all places together.
struct Job {
    scenario: Scenario,
    numbers: Vec<u64>,
    next: AtomicUsize,
    failures: Mutex<Vec<Failure>>,
}

impl Job {
    async fn work(&self, place: &mut Place) -> anyhow::Result<()> {
        let steps = self.scenario.steps();
        while let Some(&number) = self.numbers.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let (wrong, trace) = one(place, &self.scenario, &order::nth(&steps, number))
                .await
                .with_context(|| format!("scenario {}, order {number}", self.scenario.name))?;
            let mut failures = self.failures.lock().await;
            if !wrong.is_empty() {
                failures.push((number, wrong, trace));
            }
            if failures.len() >= MOST_FAILURES {
                break;
            }
        }
        Ok(())
    }
}

/// Runs one order: what was wrong, and the steps with their results.
async fn one(
    place: &mut Place,
    scenario: &Scenario,
    order: &[usize],
) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let queue = place.fresh_queue().await?;
    let mut round = Round::begin(&mut place.desk, scenario, &queue).await?;
    stepper::play(place, scenario, order, &mut round).await?;
    round.finish(&mut place.desk).await
}
