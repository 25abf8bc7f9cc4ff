use super::{
    change,
    filter::{ByArgs, Filter, HasArgs},
};
use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    interrupt::{Signals, interrupted},
    progress::Progress,
};
use std::{
    fmt::Write,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;
use windlass::{Client, Error, JobEdit, JobFilter, JobId, Touched};

/// The most ids that one call names.
const MAX_IDS: usize = 10_000;

/// How long a note of what was done may take, where somebody did not want to wait for the store.
const NOTE_WAIT: Duration = Duration::from_secs(2);

/// Which jobs: by their ids, or all that a filter selects.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true).args(["ids", "state", "queue", "kind", "tag", "error", "has_args", "all"])))]
pub(crate) struct Select<A: ByArgs = HasArgs> {
    /// The jobs' ids
    #[arg(num_args = 1..=MAX_IDS, conflicts_with_all = ["state", "queue", "kind", "tag", "error", "has_args", "all", "dry_run", "at_most", "rate"])]
    ids: Vec<i64>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    has_args: A,
    /// All jobs, of every queue and kind
    #[arg(long, conflicts_with_all = ["state", "queue", "kind", "tag", "error", "has_args"])]
    all: bool,
    /// Change nothing, only count
    #[arg(long)]
    dry_run: bool,
    /// The most jobs to touch
    #[arg(long, value_name = "JOBS")]
    at_most: Option<u64>,
    /// The most jobs to touch in a second
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
}

/// What to do with them.
pub(crate) enum Verb {
    Cancel,
    Retry,
    Edit(JobEdit),
    Delete,
}

impl Verb {
    /// What it is in the audit log.
    fn action(&self) -> &'static str {
        match self {
            Self::Cancel => "jobs.cancel",
            Self::Retry => "jobs.retry",
            Self::Edit(_) => "jobs.edit",
            Self::Delete => "jobs.delete",
        }
    }

    /// What the jobs are then.
    fn label(&self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Retry => "retried",
            Self::Edit(_) => "edited",
            Self::Delete => "deleted",
        }
    }
}

impl Select {
    /// Every job of a queue.
    pub(crate) fn of_queue(queue: String, dry_run: bool) -> Self {
        let filter = Filter::of_queue(queue);
        let has_args = HasArgs::default();
        Self { ids: Vec::new(), filter, has_args, all: false, dry_run, at_most: None, rate: None }
    }
}

impl<A: ByArgs> Select<A> {
    pub(crate) async fn run(self, globals: &Globals, client: &Client, verb: &Verb) -> Outcome {
        if !self.ids.is_empty() {
            let ids: Vec<_> = self.ids.iter().copied().map(JobId).collect();
            return match verb {
                Verb::Cancel => change::cancel(globals, client, &ids).await,
                Verb::Retry => change::retry(globals, client, &ids).await,
                Verb::Edit(edit) => change::edit(globals, client, &ids, edit).await,
                Verb::Delete => change::delete(globals, client, &ids).await,
            };
        }
        let label = verb.label();
        let counted = if self.dry_run { "counted" } else { label };
        let mut progress = Progress::new(counted, self.at_most.unwrap_or(0), globals.json);
        let filter = JobFilter { args: self.has_args.wanted(), ..self.filter.into() };
        let mut entry = globals.entry(verb.action(), "jobs");
        entry.filter = filter.noted();
        if let Verb::Edit(edit) = verb {
            entry = entry.with_edit(edit);
        }
        let reached = Mutex::new(Touched::default());
        let so_far = || *reached.lock().unwrap_or_else(PoisonError::into_inner);
        let mut selection = client.select(filter).dry_run(self.dry_run);
        if self.all {
            selection = selection.everything();
        }
        if let Some(most) = self.at_most {
            selection = selection.at_most(most);
        }
        if let Some(rate) = self.rate {
            selection = selection.per_second(rate.into());
        }
        let (mut stop, mut end, stopped) = (Signals::listen()?, Signals::listen()?, AtomicBool::new(false));
        let selection = selection.progress(|touched| {
            *reached.lock().unwrap_or_else(PoisonError::into_inner) = *touched;
            progress.reach(reached_by(touched));
        });
        // What was done until then is told and noted.
        let selection = selection.until(async {
            stop.next().await;
            stopped.store(true, Ordering::Relaxed);
        });
        let touched = async {
            match verb {
                Verb::Cancel => selection.cancel().await,
                Verb::Retry => selection.retry().await,
                Verb::Edit(edit) => selection.edit(edit.clone()).await,
                Verb::Delete => selection.delete().await,
            }
        };
        let touched = tokio::select! {
            touched = touched => touched,
            // Somebody does not want to wait for the call that is under way.
            () = async { end.next().await; end.next().await } => {
                if self.dry_run {
                    return Err(interrupted());
                }
                let Touched { done, asked, .. } = so_far();
                entry.count = Some(done + asked);
                // The store may be what one does not want to wait for.
                let noted = globals.noted(client, entry.with_outcome("interrupted"), Ok(()), |()| None);
                let _ = timeout(NOTE_WAIT, noted).await;
                let message = format!(
                    "ended while the store was at it: {} were {label} before; whether those of that call were is not known",
                    jobs(done + asked)
                );
                return Err(Failure::failed("interrupted", message).with("done", done + asked));
            }
        };
        drop(progress);
        let touched = if self.dry_run {
            touched?
        } else {
            // What was done before an error is done.
            let Touched { done, asked, .. } = so_far();
            entry.count = Some(done + asked);
            let touched =
                globals.noted(client, entry, touched, |touched| Some(touched.done + touched.asked)).await;
            touched.map_err(|error| failed(error, done + asked, label))?
        };
        let printed = globals.print(&touched, || text(&touched, label));
        match stopped.into_inner() {
            true => Err(Failure::failed(
                "interrupted",
                "stopped before the end; what was done until then is told above",
            )),
            false => printed,
        }
    }
}

/// What a line of progress counts: those that a dry run found, or those to which it was done.
fn reached_by(touched: &Touched) -> u64 {
    if touched.dry_run { touched.selected } else { touched.done + touched.asked }
}

/// An error tells of its own call; before that there may have been others. Where jobs are held by others it tells of all.
fn failed(error: Error, done: u64, label: &str) -> Failure {
    match done {
        0 => error.into(),
        _ if error.holder().is_some() => Failure::from(error).with("done", done),
        _ => Failure::from(error)
            .explain(|text| format!("{text}; in all {} {label}", jobs(done)))
            .with("done", done),
    }
}

fn jobs(n: u64) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{n} jobs") }
}

fn text(touched: &Touched, label: &str) -> String {
    let (would, told) = match touched.dry_run {
        true => ("would be ", "would be told"),
        false => ("", "were told"),
    };
    let end = if touched.dry_run { "; nothing was changed" } else { "" };
    let mut text = format!("{} {would}{label}{end}\n", jobs(touched.done));
    if touched.asked > 0 {
        let _ = writeln!(text, "{} running: their workers {told} to stop them", jobs(touched.asked));
    }
    if touched.encrypted > 0 {
        let _ = writeln!(text, "{} {would}left alone: their args are encrypted", jobs(touched.encrypted));
    }
    if touched.left > 0 {
        let _ = writeln!(text, "{} had moved on", jobs(touched.left));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::ErrorKind;

    #[test]
    fn progress_counts_what_was_done() {
        let mut touched = Touched::default();
        (touched.selected, touched.done, touched.asked, touched.left) = (9, 3, 2, 1);
        assert_eq!(reached_by(&touched), 5);
        touched.dry_run = true;
        assert_eq!(reached_by(&touched), 9);
    }

    #[test]
    fn a_failure_tells_of_all_jobs_once() {
        let error =
            || Error::new(ErrorKind::Unavailable, "cancel: 1 of 3 jobs could not be had, 2 were done");
        let text = |error| failed(error, 2, "cancelled").into_message();
        assert_eq!(
            text(error()),
            "cancel: 1 of 3 jobs could not be had, 2 were done; in all 2 jobs cancelled"
        );
        assert_eq!(
            text(error().with_holder("somebody")),
            "cancel: 1 of 3 jobs could not be had, 2 were done"
        );
    }
}
