mod frame;
mod keys;
mod rates;
mod screen;
mod sort;

use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    interrupt::Signals,
    open,
    text::json_line,
};
use frame::Frame;
use jiff::Timestamp;
use keys::Keys;
use rates::{Rated, Rates};
use screen::Screen;
use serde::Serialize;
use sort::Sort;
use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep_until},
};
use windlass::{Client, StoreStatus, WorkerRecord, redact_url};

/// How often it looks. A look takes at most one part in `COST` of the time, and is never farther from the next than `LONGEST`: as the server's.
const PERIOD: Duration = Duration::from_secs(1);
const COST: u32 = 20;
const LONGEST: Duration = Duration::from_secs(60);

/// How to show queues and workers as they change.
#[derive(clap::Args)]
pub(crate) struct Top {
    /// Looks once and prints that
    #[arg(long)]
    once: bool,
    /// The most queues that are shown. Default: as many as fit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    lines: Option<u32>,
    /// What is first: the most of this, or names by the alphabet
    #[arg(long, value_enum, default_value = "available")]
    sort: Sort,
}

/// What one look found.
#[derive(Serialize)]
struct Look {
    at: Timestamp,
    store: String,
    size_bytes: u64,
    /// Up to when what ended is counted: what the rates are of.
    counted_until: Timestamp,
    workers: Vec<WorkerRecord>,
    /// Whether there are more than these.
    more_workers: bool,
    queues: Vec<Rated>,
}

impl Top {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let mut signals = Signals::listen()?;
        let client = open::existing(globals.url()).await?;
        let shown = async {
            match (globals.json, self.once || !io::stdout().is_terminal()) {
                (true, _) => self.print_json(&client).await,
                (false, true) => self.print_once(globals, &client).await,
                (false, false) => self.watch(globals, &client).await,
            }
        };
        let outcome = tokio::select! {
            outcome = shown => outcome,
            // That is how one leaves it.
            () = signals.next() => Ok(()),
        };
        client.close().await;
        outcome
    }

    async fn print_json(&self, client: &Client) -> Outcome {
        let mut rates = Rates::default();
        loop {
            let began = Instant::now();
            let look = self.look(client, &mut rates, self.sort).await?;
            let mut stdout = io::stdout().lock();
            writeln!(stdout, "{}", json_line(&look))?;
            stdout.flush()?;
            drop(stdout);
            if self.once {
                return Ok(());
            }
            sleep_until(next_look(began)).await;
        }
    }

    async fn print_once(&self, globals: &Globals, client: &Client) -> Outcome {
        let look = self.look(client, &mut Rates::default(), self.sort).await?;
        let frame = Frame { look: &look, url: &redact_url(globals.url()), size: None, note: "" };
        io::stdout().lock().write_all(frame.text().as_bytes())?;
        Ok(())
    }

    /// Draws look after look, until somebody has seen enough.
    async fn watch(&self, globals: &Globals, client: &Client) -> Outcome {
        let (mut rates, mut sort, mut paused) = (Rates::default(), self.sort, false);
        let url = redact_url(globals.url());
        let mut last = self.look(client, &mut rates, sort).await?;
        let mut due = Instant::now() + PERIOD;
        let mut problem = None;
        let mut screen = Screen::enter()?;
        let mut keys = Keys::listen();
        let mut resized = signal(SignalKind::window_change())?;
        loop {
            let note = match &problem {
                Some(message) => format!("stale: {message}"),
                None if paused => format!("by {sort}, paused"),
                None => format!("by {sort}"),
            };
            let size = Some(screen.size());
            screen.draw(&Frame { look: &last, url: &url, size, note: &note }.text())?;
            tokio::select! {
                key = keys.next() => match key {
                    b'q' | b'Q' | keys::INTERRUPT | keys::END => return Ok(()),
                    b'p' => paused = !paused,
                    b's' => sort = sort.next(),
                    _ => {}
                },
                _ = resized.recv() => {}
                (looked, next) = self.look_at(due, client, &mut rates, sort), if !paused => {
                    due = next;
                    problem = looked.map(|look| last = look).err().map(Failure::into_message);
                }
            }
            sort.apply(&mut last.queues);
        }
    }

    /// Waits until it is time, and looks.
    async fn look_at(
        &self,
        due: Instant,
        client: &Client,
        rates: &mut Rates,
        sort: Sort,
    ) -> (Outcome<Look>, Instant) {
        sleep_until(due).await;
        let began = Instant::now();
        (self.look(client, rates, sort).await, next_look(began))
    }

    async fn look(&self, client: &Client, rates: &mut Rates, sort: Sort) -> Outcome<Look> {
        let now = Timestamp::now();
        let history = client.history(&rates.request(now)).await?;
        let StoreStatus { store, size_bytes, workers, more_workers, .. } = client.status().await?;
        let queues = client.queues().await?;
        let mut queues = rates.rate(queues, &history, Instant::now());
        sort.apply(&mut queues);
        queues.truncate(self.lines.map_or(usize::MAX, |lines| lines as usize));
        let counted_until = history.counted_until;
        Ok(Look { at: now, store, size_bytes, counted_until, workers, more_workers, queues })
    }
}

/// When to look again after a look that began then and is over now.
fn next_look(began: Instant) -> Instant {
    Instant::now() + began.elapsed().saturating_mul(COST).clamp(PERIOD, LONGEST)
}
