//! A consumer of events that keeps its cursor in a file, and reads on from there however it ended.

use super::{Order, connect, dismissed};
use crate::history::{Recorder, Told, What};
use anyhow::{Context as _, Result};
use fastrand::Rng;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use windlass_core::{EventCursor, EventPage, EventRequest};

/// The longest page; most are shorter.
const PAGE: u32 = 300;
const PAUSE: Duration = Duration::from_millis(10);

pub(super) async fn run(order: &Order, recorder: Arc<Recorder>) -> Result<()> {
    let mut place = Place::find(&order.history)?;
    let mut rng = Rng::with_seed(order.seed);
    let client = connect(&order.store).await?;
    let mut leaving = std::pin::pin!(dismissed());
    let mut left = false;
    loop {
        let request = EventRequest { limit: rng.u32(1..=PAGE), ..EventRequest::after(place.cursor.clone()) };
        match client.store().events(&request).await {
            Ok(page) => {
                let is_last = left && page.events.is_empty() && !page.more;
                let is_all = page.events.is_empty() && !page.more;
                place.keep(page, &recorder)?;
                if is_last {
                    return Ok(());
                }
                if !is_all {
                    continue;
                }
            }
            Err(error) if error.is_connection_loss() || error.is_retryable() => {}
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = &mut leaving, if !left => left = true,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// How far it got.
struct Place {
    file: PathBuf,
    page: u64,
    cursor: EventCursor,
}

impl Place {
    /// Beside the history, whatever start of the process that is of.
    fn find(history: &Path) -> Result<Self> {
        let file = history.with_file_name("events.cursor");
        let (page, cursor) = match fs::read_to_string(&file) {
            Ok(text) => {
                let (page, cursor) = text.split_once(' ').context("events.cursor is damaged")?;
                (page.parse()?, EventCursor::from(cursor))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (0, EventCursor::start()),
            Err(error) => return Err(error.into()),
        };
        Ok(Self { file, page, cursor })
    }

    /// Notes the page and only then keeps its end: who dies in between reads it anew, under the same number.
    fn keep(&mut self, page: EventPage, recorder: &Recorder) -> Result<()> {
        let number = self.page + 1;
        recorder.note_all(page.events.iter().map(|event| What::Told {
            page: number,
            id: event.job.0,
            event: Told(event.event),
        }));
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{number} {}", page.next))?;
        fs::rename(&new, &self.file)?;
        (self.page, self.cursor) = (number, page.next);
        Ok(())
    }
}
