//! What happened to jobs, one after the other.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};
use tokio::time::sleep;
use windlass_core::{EventCursor, EventPage, EventRequest, EventType, JobEvent, Result, Store};

/// The first and the longest pause between two looks while nothing happens.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Reads what happened to jobs; see [`Client::events`](crate::Client::events).
pub struct Events {
    store: Arc<dyn Store>,
    request: EventRequest,
    /// What was read and not given yet.
    read: VecDeque<JobEvent>,
    pause: Duration,
}

impl Events {
    pub(crate) fn new(store: Arc<dyn Store>, cursor: EventCursor) -> Self {
        Self { store, request: EventRequest::after(cursor), read: VecDeque::new(), pause: PAUSE.0 }
    }

    /// Only of jobs in this queue, or in one of those that are named so.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.request.queues.push(queue.into());
        self
    }

    /// Only of jobs of this kind, or of one of those that are named so.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.request.kinds.push(kind.into());
        self
    }

    /// Only events of this type, or of one of those that are named so.
    #[must_use]
    pub fn only(mut self, event: EventType) -> Self {
        self.request.types.push(event);
        self
    }

    /// How many events are asked for at a time; default 1,000.
    #[must_use]
    pub fn page_size(mut self, events: u32) -> Self {
        self.request.limit = events;
        self
    }

    /// The next event; waits until something happens. While nothing does, the store is looked at from time to time, once a second at
    /// least. May be dropped at any time, by a timeout for example; nothing is lost.
    ///
    /// # Errors
    /// As [`next_page`](Self::next_page). After an error of the connection it can be called again, and goes on.
    pub async fn next(&mut self) -> Result<JobEvent> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Ok(event);
            }
            let page = self.fetch().await?;
            let (is_empty, more) = (page.events.is_empty(), page.more);
            self.read.extend(page.events);
            if !is_empty {
                self.pause = PAUSE.0;
            } else if !more {
                sleep(self.pause).await;
                self.pause = (self.pause * 2).min(PAUSE.1);
            }
        }
    }

    /// The next page, at once: empty where nothing has happened, or the filters left all of it out although [there is
    /// more](EventPage::more).
    ///
    /// # Errors
    /// `events_expired` when events behind the cursor were removed with jobs past their retention, or the cursor is of another log;
    /// `invalid_option` when it is no cursor; the store's own.
    pub async fn next_page(&mut self) -> Result<EventPage> {
        if !self.read.is_empty() {
            let events: Vec<_> = self.read.drain(..).collect();
            return Ok(EventPage { events, next: self.request.cursor.clone(), more: true });
        }
        self.fetch().await
    }

    /// Where the next page begins: behind everything that was read, what [`next`](Self::next) has not given yet included.
    pub fn position(&self) -> &EventCursor {
        &self.request.cursor
    }

    async fn fetch(&mut self) -> Result<EventPage> {
        let page = self.store.events(&self.request).await?;
        self.request.cursor = page.next.clone();
        Ok(page)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("position", &self.request.cursor).finish_non_exhaustive()
    }
}
