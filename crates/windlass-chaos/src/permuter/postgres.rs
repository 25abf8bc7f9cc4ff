//! PostgreSQL: every session is a connection, and a scenario's operations are stepped through their
//! transactions in the order asked for.

mod calls;
mod place;
mod schema;
mod sessions;
mod stepper;

use super::{
    order,
    report::{Outcome, Plan},
    round::Round,
    scenario::Scenario,
};
use place::Place;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{sync::Mutex, task::JoinSet};

/// How many orders run at once, each on connections and a schema of its own.
const PLACES: usize = 4;
/// After how many failing orders a scenario is given up: more say nothing new.
const MOST_FAILURES: usize = 5;

/// Runs the orders of one scenario that the plan asks for.
///
/// # Errors
/// When the server cannot be reached or the schema cannot be made; broken rules are in the outcome.
pub async fn run(url: &str, scenario: &Scenario, plan: &Plan) -> anyhow::Result<Outcome> {
    let started = std::time::Instant::now();
    let steps = scenario.steps();
    let total = order::count(&steps);
    let numbers = Arc::new(plan.numbers(total));
    let (next, scenario) = (Arc::new(AtomicUsize::new(0)), Arc::new(scenario.clone()));
    let failures = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..PLACES.min(numbers.len()) {
        let (url, scenario, steps) = (url.to_owned(), Arc::clone(&scenario), steps.clone());
        let (numbers, next, failures) = (Arc::clone(&numbers), Arc::clone(&next), Arc::clone(&failures));
        tasks.spawn(async move {
            let mut place = Place::take(&url, scenario.inside, &scenario.patches).await?;
            while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (wrong, trace) = one(&mut place, &scenario, &order::nth(&steps, number)).await?;
                let mut failures = failures.lock().await;
                if !wrong.is_empty() {
                    failures.push((number, wrong, trace));
                }
                if failures.len() >= MOST_FAILURES {
                    break;
                }
            }
            place.leave().await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let failures = std::mem::take(&mut *failures.lock().await);
    Ok(Outcome::new(scenario.name, total, numbers.len(), started.elapsed(), failures))
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
