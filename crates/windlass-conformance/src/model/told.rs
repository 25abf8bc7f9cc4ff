use super::play::Play;
use crate::events::{now, read};
use std::{collections::BTreeMap, sync::Arc};
use windlass_core::{EventCursor, EventType, JobEvent, JobId, Store};

/// How many events a page has: fewer than what happens between two looks.
const PAGE: u32 = 40;

/// Where the events of both were read up to.
pub(super) struct Told {
    store: EventCursor,
    oracle: EventCursor,
}

/// What an event says that the contract does not leave open. Of its reason without the ids of jobs, which each gives itself.
type Saying = (EventType, Arc<str>, Option<String>);

impl Told {
    pub(super) async fn begin(store: &Arc<dyn Store>, oracle: &Arc<dyn Store>) -> Self {
        Self { store: now(store).await, oracle: now(oracle).await }
    }
}

impl Play {
    /// Of each job both tell the same since the last look, in the same order.
    pub(super) async fn check_told(&mut self) {
        let oracle = self.oracle.handle();
        let seen = read(&self.admin, &mut self.told.store, PAGE).await;
        let known = read(&oracle, &mut self.told.oracle, PAGE).await;
        let mut known = stories(&known);
        for (id, story) in stories(&seen) {
            let twin = self.oracle.named(&[id])[0];
            assert_eq!(story, known.remove(&twin).unwrap_or_default(), "what is told of job {id}");
        }
        assert!(known.is_empty(), "not told, by the oracle's ids: {known:?}");
    }

    /// Housekeeping that keeps nothing may refuse even who has read everything.
    pub(super) async fn read_on_from_now(&mut self) {
        self.told = Told::begin(&self.admin, &self.oracle.handle()).await;
    }
}

fn stories(events: &[JobEvent]) -> BTreeMap<JobId, Vec<Saying>> {
    let mut stories = BTreeMap::<_, Vec<_>>::new();
    for event in events {
        let reason =
            event.reason.as_ref().map(|reason| reason.replace(|digit: char| digit.is_ascii_digit(), ""));
        let saying = (event.event, Arc::clone(&event.kind), reason);
        stories.entry(event.job).or_default().push(saying);
    }
    stories
}
