use std::time::Duration;

/// How a count grew. On a busy machine it may be read late, so each reading carries its own time.
#[derive(Clone, Default)]
pub(crate) struct Timeline(Vec<(f64, u64)>);

impl Timeline {
    /// Adds the count at a time since the start. Each call must have a later time than the one before.
    pub(crate) fn record(&mut self, at: Duration, count: u64) {
        self.0.push((at.as_secs_f64(), count));
    }

    /// How much was added in each second. The last entry is for the rest, which may be shorter than a second:
    /// the sum is the whole count.
    pub(crate) fn per_second(&self) -> Vec<u64> {
        let end = self.0.last().map_or(0.0, |&(at, _)| at);
        let mut before = 0;
        let mut each = Vec::new();
        for second in 1..=end.ceil() as u64 {
            let now = self.at((second as f64).min(end)).max(before);
            each.push(now - before);
            before = now;
        }
        each
    }

    /// The part after a time, which becomes the start.
    pub(crate) fn after(&self, time: Duration) -> Self {
        let start = time.as_secs_f64();
        let before = if self.0.is_empty() { 0 } else { self.at(start) };
        let rest = self.0.iter().filter(|&&(at, _)| at > start);
        Self(rest.map(|&(at, count)| (at - start, count.saturating_sub(before))).collect())
    }

    /// The count at a time, on the line between the readings around it.
    fn at(&self, time: f64) -> u64 {
        let after = self.0.partition_point(|&(at, _)| at < time);
        let (late, count) = self.0[after.min(self.0.len() - 1)];
        let (early, less) = after.checked_sub(1).map_or((0.0, 0), |before| self.0[before]);
        if late <= early {
            return count;
        }
        let share = (time - early) / (late - early);
        less + (share.clamp(0.0, 1.0) * count.saturating_sub(less) as f64).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(points: &[(u64, u64)]) -> Vec<u64> {
        let mut timeline = Timeline::default();
        for &(ms, count) in points {
            timeline.record(Duration::from_millis(ms), count);
        }
        timeline.per_second()
    }

    #[test]
    fn counts_between_readings_lie_on_the_line() {
        assert_eq!(seconds(&[]), [0_u64; 0]);
        assert_eq!(seconds(&[(500, 7)]), [7]);
        assert_eq!(seconds(&[(500, 50), (1_500, 150), (2_000, 200)]), [100, 100]);
        assert_eq!(seconds(&[(4_000, 400), (4_250, 500)]), [100, 100, 100, 100, 100]);
        assert_eq!(seconds(&[(1_000, 10), (3_000, 10), (3_100, 30)]), [10, 0, 0, 20]);
    }

    #[test]
    fn a_later_start_leaves_out_what_was_before() {
        let mut timeline = Timeline::default();
        for (second, count) in [(1, 10), (2, 30), (3, 60)] {
            timeline.record(Duration::from_secs(second), count);
        }
        assert_eq!(timeline.after(Duration::from_millis(1_500)).per_second(), [25, 15]);
        assert_eq!(timeline.after(Duration::from_secs(9)).per_second(), [0_u64; 0]);
        assert_eq!(Timeline::default().after(Duration::ZERO).per_second(), [0_u64; 0]);
    }
}
