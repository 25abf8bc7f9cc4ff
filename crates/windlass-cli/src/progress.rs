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
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style =
            ProgressStyle::with_template("{prefix:>9} {wide_bar} {human_pos} of {human_len}  {per_sec}");
        if let Ok(style) = style {
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
            let total = self.bar.length().filter(|&total| total > 0).unwrap_or(done);
            let (label, done, total) = (self.label, HumanCount(done), HumanCount(total));
            let _ = writeln!(io::stderr(), "{label}: {done} of {total}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
