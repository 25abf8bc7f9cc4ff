//! A look as text.

use super::{Look, rates::Rated};
use crate::{
    commands::queues::{counted, waited},
    table::table,
    text::{escape, shorten},
};
use indicatif::{HumanBytes, HumanCount};
use unicode_width::UnicodeWidthChar;
use windlass::{JobState, WorkerRecord};

/// The most workers that are shown on a terminal, where queues need the room.
const MOST_WORKERS: usize = 5;

/// A look, and how it is shown.
pub(super) struct Frame<'a> {
    pub(super) look: &'a Look,
    /// The store, without a password.
    pub(super) url: &'a str,
    /// Columns and rows of the terminal; without one everything is shown, but rates, which one look has none of.
    pub(super) size: Option<(usize, usize)>,
    /// What holds for all of it.
    pub(super) note: &'a str,
}

impl Frame<'_> {
    pub(super) fn text(&self) -> String {
        let Self { look, url, size, note } = self;
        let live = look.workers.iter().filter(|worker| worker.live).count();
        let store = format!(
            "{}  {} ({})  {}",
            look.at.strftime("%H:%M:%SZ"),
            escape(&look.store),
            escape(url),
            HumanBytes(look.size_bytes)
        );
        let more = if look.more_workers { " or more" } else { "" };
        let mut lines = vec![store, format!("workers: {live}{more} live  {}", escape(note)), String::new()];
        let Some((columns, rows)) = *size else {
            lines.extend(self.queues(usize::MAX));
            lines.push(String::new());
            lines.extend(self.workers(usize::MAX));
            return lines.into_iter().map(|line| line.trim_end().to_owned() + "\n").collect();
        };
        let workers = self.workers(MOST_WORKERS);
        let room = rows.saturating_sub(lines.len() + workers.len() + 3);
        lines.extend(self.queues(room.max(1)));
        lines.push(String::new());
        lines.extend(workers);
        lines.truncate(rows.saturating_sub(1));
        lines.push("q quit  p pause  s sort".to_owned());
        lines.iter().map(|line| cut(line, columns)).collect::<Vec<_>>().join("\n")
    }

    /// A name, which leaves room for the figures beside it.
    fn name(&self, name: &str) -> String {
        self.size.map_or_else(|| escape(name), |(columns, _)| shorten(name, columns / 3))
    }

    /// The table of queues: its head, and so many of them.
    fn queues(&self, room: usize) -> Vec<String> {
        let queues = &self.look.queues;
        if queues.is_empty() {
            return vec!["no queues".to_owned()];
        }
        let is_live = self.size.is_some();
        // What a narrow terminal cuts off stands last.
        let mut heads = vec!["QUEUE", "STATE", ">AVAILABLE", ">RUNNING", ">OLDEST"];
        if is_live {
            heads.extend([">BACKLOG/S", ">DONE/S", ">FAILED/S"]);
        }
        heads.extend([">RETRYABLE", ">SCHEDULED", ">DISCARDED", ">NO HANDLER"]);
        let row = |queue: &Rated| {
            let stats = &queue.stats;
            let count = |state, number| counted(stats, state, number);
            let mut row = vec![
                self.name(&stats.name),
                if stats.paused { "paused" } else { "open" }.to_owned(),
                count(JobState::Available, stats.available),
                count(JobState::Running, stats.running),
                stats.oldest_available_at.map_or_else(none, |since| waited(self.look.at, since)),
            ];
            if is_live {
                row.push(queue.backlog_per_second.map_or_else(none, |rate| format!("{rate:+.1}")));
                let rates = [queue.completed_per_second, queue.failed_per_second];
                row.extend(rates.map(|rate| rate.map_or_else(none, |rate| format!("{rate:.1}"))));
            }
            row.extend([
                count(JobState::Retryable, stats.retryable),
                count(JobState::Scheduled, stats.scheduled),
                count(JobState::Discarded, stats.discarded),
                count(JobState::Available, stats.no_handler),
            ]);
            row
        };
        let fits = if queues.len() > room { room - 1 } else { room };
        let rows: Vec<_> = queues.iter().take(fits).map(row).collect();
        let mut lines: Vec<_> = table(&heads, &rows).lines().map(str::to_owned).collect();
        if queues.len() > fits {
            lines.push(format!("… and {} more", HumanCount((queues.len() - fits) as u64)));
        }
        lines
    }

    fn workers(&self, most: usize) -> Vec<String> {
        let Look { workers, at: now, .. } = self.look;
        let live: Vec<_> = workers.iter().filter(|worker| worker.live).collect();
        if live.is_empty() {
            return vec!["no worker is live".to_owned()];
        }
        let row = |worker: &&WorkerRecord| {
            let name = self.name(&worker.name);
            vec![
                worker.id.to_string(),
                name,
                waited(*now, worker.heartbeat_at),
                escape(&worker.queues.join(", ")),
            ]
        };
        let rows: Vec<_> = live.iter().take(most).map(row).collect();
        let mut lines: Vec<_> =
            table(&[">WORKER", "NAME", ">SILENT", "QUEUES"], &rows).lines().map(str::to_owned).collect();
        if live.len() > most {
            lines.push(format!("… and {} more", HumanCount((live.len() - most) as u64)));
        }
        lines
    }
}

/// As much of a line as fits.
fn cut(line: &str, columns: usize) -> String {
    let mut room = columns;
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= room;
        room = if fits { room - width } else { 0 };
        fits
    };
    line.chars().take_while(fits).collect()
}

fn none() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn what_is_wide_is_cut_before_it_wraps() {
        assert_eq!(
            (cut("漢字x", 3), cut("漢字x", 4), cut("abc", 3)),
            ("漢".into(), "漢字".into(), "abc".into())
        );
    }
}
