//! How far a long command is.

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// How often a line tells the progress where a bar cannot be drawn.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// How far a long command is: a bar on a terminal, a line now and then elsewhere, nothing beside JSON.
pub struct Progress {
    bar: ProgressBar,
    label: &'static str,
    told: Option<Instant>,
}

impl Progress {
    /// For `total` steps; 0 when that is not known. `quiet` shows nothing.
    pub fn new(label: &'static str, total: u64, quiet: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let target =
            if terminal && !quiet { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target((total > 0).then_some(total), target);
        let template = match total {
            0 => "{prefix:>9} {human_pos}  {per_sec}",
            _ => "{prefix:>9} {wide_bar} {human_pos} of {human_len}  {per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(label);
        Self { bar, label, told: (!terminal && !quiet).then(Instant::now) }
    }

    /// So many are done now.
    pub fn reach(&mut self, done: u64) {
        self.bar.set_position(done);
        if self.told.is_some_and(|told| told.elapsed() >= LINE_EVERY) {
            self.told = Some(Instant::now());
            let _ = writeln!(io::stderr(), "{}", line(self.label, done, self.bar.length()));
        }
    }
}

fn line(label: &str, done: u64, total: Option<u64>) -> String {
    let of = total.map_or_else(String::new, |total| format!(" of {}", HumanCount(total)));
    format!("{label}: {}{of}", HumanCount(done))
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_told() {
        assert_eq!(line("enqueued", 5_000, Some(20_000)), "enqueued: 5,000 of 20,000");
        let progress = Progress::new("cancelled", 0, true);
        assert_eq!(line("cancelled", 5_000, progress.bar.length()), "cancelled: 5,000");
    }
}
