use crate::cases::Case;
use clap::Parser;
use windlass_cli::failure::{Failure, Outcome};

/// Makes points smaller, for a quick look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reduction {
    pub(crate) jobs: Option<u64>,
    pub(crate) seconds: Option<u64>,
    pub(crate) scale: Option<f64>,
}

/// The arguments of a point alone.
#[derive(Parser)]
#[command(name = "windlass-bench", no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    _case: Case,
}

impl Reduction {
    /// The arguments of a point, with smaller numbers where such are asked for.
    pub(crate) fn apply(self, point: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for word in point.split_whitespace() {
            let smaller = match (words.last().map(String::as_str), word.parse::<u64>()) {
                (Some("--jobs" | "--samples" | "--amount"), Ok(number)) => Some(self.of(number, self.jobs)),
                (Some("--seconds"), Ok(number)) => Some(self.of(number, self.seconds)),
                // It must come within the seconds, whatever is left of them.
                (Some("--hold-snapshot-after"), Ok(number)) => {
                    Some(self.scaled(number).min(self.seconds.map_or(u64::MAX, |seconds| seconds / 2)))
                }
                _ => None,
            };
            let smaller = smaller.filter(|_| !self.is_none());
            words.push(smaller.map_or(word.to_owned(), |number| number.to_string()));
        }
        words
    }

    fn of(self, number: u64, most: Option<u64>) -> u64 {
        self.scaled(number).min(most.unwrap_or(u64::MAX)).max(1)
    }

    fn scaled(self, number: u64) -> u64 {
        self.scale.map_or(number, |scale| (number as f64 * scale) as u64)
    }

    fn is_none(self) -> bool {
        self.jobs.is_none() && self.seconds.is_none() && self.scale.is_none()
    }
}

/// Fails unless a point can be run.
pub(crate) fn check(words: &[String]) -> Outcome {
    Line::try_parse_from(words)
        .map(drop)
        .map_err(|error| Failure::failed("internal", format!("the point {words:?} cannot be run: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::SCENARIOS;

    #[test]
    fn every_point_can_be_run_whole_and_reduced() {
        let quick = Reduction { jobs: Some(10), seconds: Some(2), scale: Some(0.001) };
        for point in SCENARIOS.iter().flat_map(|scenario| scenario.points) {
            for reduction in [Reduction::default(), quick] {
                let words = reduction.apply(point.line);
                assert!(check(&words).is_ok(), "{words:?}: {:?}", check(&words).err());
            }
        }
    }

    #[test]
    fn a_reduction_makes_only_amounts_smaller() {
        let quick = Reduction { jobs: Some(100), seconds: Some(4), scale: None };
        let words = quick.apply("mixed --seconds 60 --backlog 20000 --hold-snapshot-after 10").join(" ");
        assert_eq!(words, "mixed --seconds 4 --backlog 20000 --hold-snapshot-after 2");
        assert_eq!(quick.apply("drain --jobs 1000 --concurrency 230")[2], "100");
        let tenth = Reduction { scale: Some(0.1), ..Reduction::default() };
        assert_eq!(tenth.apply("drain --jobs 1000")[2], "100");
        assert_eq!(Reduction::default().apply("mixed --hold-snapshot-after 10")[2], "10");
    }
}
