//! What happened to jobs, noted and read.

use crate::{clock::earlier, state::State};
use std::sync::Arc;
use windlass_core::{EventCursor, EventPage, EventRequest, EventType, JobEvent, JobId, Result, WorkerId};

/// The most events that one page looks at.
const LOOKED_AT: usize = 100_000;

impl State {
    /// Something happened to a job.
    pub(crate) fn note(
        &mut self,
        id: JobId,
        what: EventType,
        attempt: u16,
        worker: Option<WorkerId>,
        reason: Option<&str>,
    ) {
        let Some(job) = self.jobs.get(&id) else { return };
        let mut event = JobEvent::new(EventCursor::start(), what, id, self.now());
        event.queue = Arc::clone(&self.lanes[job.lane].queue);
        event.kind = Arc::clone(&job.kind);
        (event.attempt, event.worker, event.reason) = (attempt, worker, reason.map(str::to_owned));
        self.counters.add(event.at, &event.queue, &event.kind, what);
        self.events.push(event);
    }

    /// Its worker has it no more and it did not end: told unless it was cancelled instead.
    pub(crate) fn note_back(&mut self, id: JobId, what: EventType, reason: Option<&str>) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.place.finished_at().is_none()) else { return };
        let (attempt, worker) = (job.attempt + 1, job.held.map(|held| held.worker));
        self.note(id, what, attempt, worker, reason);
    }

    /// Removes what is past the retention.
    pub(crate) fn forget_events(&mut self) {
        let young = earlier(self.now(), self.settings.retention);
        let log = &mut self.events;
        while log.kept.front().is_some_and(|event| event.at <= young) {
            log.kept.pop_front();
            log.first += 1;
        }
    }
}

/// The next page.
pub(crate) fn events(state: &State, request: &EventRequest) -> Result<EventPage> {
    request.check()?;
    let log = &state.events;
    let mut number = log.read(&request.cursor)?;
    let mut page = EventPage { events: Vec::new(), next: request.cursor.clone(), more: false };
    let begin = usize::try_from(number - log.first).unwrap_or(usize::MAX);
    for event in log.kept.iter().skip(begin).take(LOOKED_AT) {
        if page.events.len() == request.limit as usize {
            break;
        }
        number += 1;
        if request.matches(&event.queue, &event.kind, event.event) {
            page.events.push(event.clone());
        }
    }
    page.next = log.cursor(number);
    page.more = number < log.end();
    Ok(page)
}
