//! Which orders to try, and what came of them.

use super::order;
use std::{env, fmt, time::Duration};

/// The most orders of a scenario in the full mode; beyond it a sample, too.
const FULL: u64 = 20_000;
/// The seed of samples when none is given.
const SEED: u64 = 1;

/// Which scenarios and orders to try.
///
/// Read from the environment: `WINDLASS_PERMUTE=name` or `name:number` picks one scenario or one order,
/// `WINDLASS_PERMUTE_FULL=1` asks for all orders, `WINDLASS_PERMUTE_ORDERS` for so many of each scenario,
/// `WINDLASS_PERMUTE_SEED` picks another sample.
#[derive(Clone, Debug)]
pub struct Plan {
    only: Option<(String, Option<u64>)>,
    most: u64,
    seed: u64,
}

impl Plan {
    /// A sample of at most so many orders for each scenario.
    pub fn sample(most: u64) -> Self {
        Self { only: None, most, seed: SEED }
    }

    /// What the environment asks for; by default a sample of at most so many orders for each scenario.
    ///
    /// # Errors
    /// When a variable is set to something that is no number.
    pub fn from_env(most: u64) -> anyhow::Result<Self> {
        let variable = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let full = variable("WINDLASS_PERMUTE_FULL").is_some_and(|text| text != "0");
        let only = match variable("WINDLASS_PERMUTE") {
            None => None,
            Some(text) => Some(match text.split_once(':') {
                None => (text, None),
                Some((name, number)) => (name.to_owned(), Some(number.parse()?)),
            }),
        };
        let seed = variable("WINDLASS_PERMUTE_SEED").map_or(Ok(SEED), |text| text.parse())?;
        let most = variable("WINDLASS_PERMUTE_ORDERS").map_or(Ok(most), |text| text.parse())?;
        let sampled = variable("WINDLASS_PERMUTE_ORDERS").is_some();
        Ok(Self { most: if full || only.is_some() && !sampled { FULL } else { most }, only, seed })
    }

    /// Whether this scenario is asked for.
    pub fn wants(&self, scenario: &str) -> bool {
        self.only.as_ref().is_none_or(|(name, _)| name == scenario)
    }

    /// The seed of samples.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The numbers of the orders to try, of so many.
    pub(crate) fn numbers(&self, total: u64) -> anyhow::Result<Vec<u64>> {
        match &self.only {
            Some((name, Some(number))) if *number >= total => {
                anyhow::bail!("scenario {name} has {total} orders, from 0 on; there is no order {number}")
            }
            Some((_, Some(number))) => Ok(vec![*number]),
            _ => Ok(order::chosen(total, self.most, self.seed)),
        }
    }
}

/// A failing order: its number, what was wrong, and its steps with their results.
pub(crate) type Failure = (u64, Vec<String>, Vec<String>);

/// What came of a scenario.
#[derive(Debug)]
pub struct Outcome {
    /// The scenario.
    pub scenario: &'static str,
    /// How many orders it has.
    pub total: u64,
    /// How many were to be tried.
    pub tried: usize,
    /// How long that took.
    pub took: Duration,
    failures: Vec<Failure>,
    /// What runs the test that repeats an order.
    command: &'static str,
}

impl Outcome {
    pub(crate) fn new(
        scenario: &'static str,
        total: u64,
        tried: usize,
        took: Duration,
        mut failures: Vec<Failure>,
        command: &'static str,
    ) -> Self {
        failures.sort();
        Self { scenario, total, tried, took, failures, command }
    }

    /// Whether every order kept the rules.
    pub fn is_good(&self) -> bool {
        self.failures.is_empty()
    }

    /// Everything that was wrong in any order, without the steps.
    pub fn wrong(&self) -> impl Iterator<Item = &str> {
        self.failures.iter().flat_map(|(_, wrong, _)| wrong).map(String::as_str)
    }

    /// One line for a table.
    pub fn line(&self) -> String {
        let Self { scenario, total, tried, took, failures, .. } = self;
        let bad = if failures.is_empty() { String::new() } else { format!("  {} FAILED", failures.len()) };
        format!("{scenario:<44} {tried:>6} of {total:>8} orders {:>7} ms{bad}", took.as_millis())
    }
}

impl fmt::Display for Outcome {
    /// The failing orders, each with its steps and with what repeats it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, wrong, trace) in &self.failures {
            writeln!(f, "scenario {}, order {number}:", self.scenario)?;
            wrong.iter().try_for_each(|line| writeln!(f, "  WRONG {line}"))?;
            trace.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
            writeln!(f, "  repeat it alone: WINDLASS_PERMUTE='{}:{number}' {}", self.scenario, self.command)?;
        }
        Ok(())
    }
}
