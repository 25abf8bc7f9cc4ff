use super::message::ProcessReport;
use windlass_cli::{
    failure::{Failure, Outcome},
    measure::Faults,
};

/// Which jobs all processes handled together.
pub(super) struct Sum {
    seen: Vec<u8>,
    repeated: u64,
    strangers: u64,
}

impl Sum {
    pub(super) fn new(jobs: u64) -> Self {
        Self { seen: vec![0; jobs.div_ceil(4) as usize], repeated: 0, strangers: 0 }
    }

    pub(super) fn add(&mut self, report: &ProcessReport) {
        self.repeated += report.repeated;
        self.strangers += report.strangers;
        for (all, digit) in self.seen.iter_mut().zip(report.seen.bytes()) {
            let its = char::from(digit).to_digit(16).unwrap_or(0) as u8;
            self.repeated += u64::from((*all & its).count_ones());
            *all |= its;
        }
    }

    pub(super) fn verify(&self, jobs: u64) -> Outcome {
        let seen: u64 = self.seen.iter().map(|digit| u64::from(digit.count_ones())).sum();
        let faults =
            Faults { lost: jobs.saturating_sub(seen), repeated: self.repeated, strangers: self.strangers };
        faults.check(jobs).map_err(|wrong| Failure::failed("not_exactly_once", wrong))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(seen: &str) -> ProcessReport {
        let seen = seen.to_owned();
        ProcessReport { seen, repeated: 0, strangers: 0, cpu_seconds: 0.0, peak_memory: None }
    }

    #[test]
    fn together_each_once_is_right() {
        let verdict = |seen: &[&str]| {
            let mut sum = Sum::new(6);
            seen.iter().for_each(|seen| sum.add(&report(seen)));
            sum.verify(6).map_err(|failure| failure.into_message())
        };
        assert!(verdict(&["f0", "03"]).is_ok());
        assert!(verdict(&["f0", "01"]).unwrap_err().contains("1 were never handled"));
        assert!(verdict(&["f0", "83"]).unwrap_err().contains("1 more than once"));
    }
}
