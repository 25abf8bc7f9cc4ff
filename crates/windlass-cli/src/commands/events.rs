use super::event_cursor::CursorFile;
use crate::{
    failure::Outcome,
    globals::Globals,
    interrupt::Signals,
    open,
    text::{escape, json_line, shorten},
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};
use tokio::time::sleep;
use windlass::{EventCursor, EventType, Events, JobEvent};
use windlass_bridge::event_json;

/// The longest reason that a line of text shows.
const REASON: usize = 120;
/// The first and the longest pause between two looks while nothing happens.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The options of `events`.
#[derive(clap::Args)]
pub(crate) struct EventsOf {
    /// Behind what: start (all that is kept), now, or the cursor of an event. Default: start, with --follow now
    #[arg(
        long,
        value_name = "CURSOR",
        default_value = "start",
        default_value_if("follow", "true", "now"),
        hide_default_value = true
    )]
    from: String,
    /// Keeps in this file how far it got, and reads on from there when it is there. A line that was printed just before it died is printed again
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Goes on, and prints what happens as it does, until it is interrupted
    #[arg(long, short)]
    follow: bool,
    /// Only of jobs of this queue; may be given several times
    #[arg(long)]
    queue: Vec<String>,
    /// Only of jobs of this kind; may be given several times
    #[arg(long)]
    kind: Vec<String>,
    /// Only these: enqueued, started, completed, failed, retried, snoozed, cancelled, discarded, rescued, returned, deleted
    #[arg(long, value_parser = event)]
    event: Vec<EventType>,
}

fn event(name: &str) -> Result<EventType, String> {
    name.parse().map_err(|error: windlass::Error| error.to_string())
}

impl EventsOf {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let mut signals = Signals::listen()?;
        let client = open::existing(globals.url()).await?;
        let keep = self.keep.map(CursorFile::at);
        let kept = keep.as_ref().map(CursorFile::read).transpose()?.flatten();
        let is_kept = kept.is_some();
        let mut events = client.events(kept.unwrap_or_else(|| EventCursor::from(self.from)));
        events = self.queue.into_iter().fold(events, Events::queue);
        events = self.kind.into_iter().fold(events, Events::kind);
        events = self.event.into_iter().fold(events, Events::only);
        let outcome = tokio::select! {
            outcome = print(events, self.follow, globals.json, keep, is_kept) => outcome,
            // It was asked to end: that is what it does.
            () = signals.next() => Ok(()),
        };
        client.close().await;
        outcome
    }
}

/// `is_kept`: the cursor that it begins with is the one of the file.
async fn print(
    mut events: Events,
    follow: bool,
    json: bool,
    keep: Option<CursorFile>,
    is_kept: bool,
) -> Outcome {
    let mut pause = PAUSE.0;
    let mut kept = None;
    loop {
        let page = match (events.next_page().await, &keep) {
            (Err(error), Some(file)) if is_kept && kept.is_none() => return Err(file.refused(error)),
            (page, _) => page?,
        };
        let mut lines = String::new();
        for event in &page.events {
            lines.push_str(&if json { json_line(&event_json(event)) } else { line(event) });
            lines.push('\n');
        }
        // The reader may be gone; that ends the command, and is no failure.
        let mut stdout = io::stdout().lock();
        stdout.write_all(lines.as_bytes())?;
        stdout.flush()?;
        let read = reader_is_there(&stdout);
        drop(stdout);
        if let Some(file) = keep.as_ref().filter(|_| kept.as_ref() != Some(&page.next)) {
            file.write(&page.next)?;
            kept = Some(page.next);
        }
        if page.more {
            pause = PAUSE.0;
        } else if follow && read {
            pause = if page.events.is_empty() { (pause * 2).min(PAUSE.1) } else { PAUSE.0 };
            sleep(pause).await;
        } else {
            return Ok(());
        }
    }
}

/// Whether somebody may still read what is printed: otherwise following would go on until something happens.
fn reader_is_there(stdout: &io::StdoutLock<'_>) -> bool {
    let mut fds = [PollFd::new(stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_err() || !fds[0].revents().contains(PollFlags::ERR)
}

fn line(event: &JobEvent) -> String {
    let JobEvent { at, event: what, job, queue, kind, attempt, .. } = event;
    let mut line = format!("{at:.3}  {what:<9}  {job:>8}  {}  {}", escape(queue), escape(kind));
    if *attempt > 0 {
        line.push_str(&format!("  attempt {attempt}"));
    }
    if let Some(worker) = event.worker {
        line.push_str(&format!("  worker {worker}"));
    }
    if let Some(reason) = &event.reason {
        line.push_str(&format!("  {}", shorten(reason, REASON)));
    }
    line
}
