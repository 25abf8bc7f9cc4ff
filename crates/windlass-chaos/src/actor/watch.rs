use super::{Order, Role, Work, leading::Leading};
use crate::{
    bug,
    history::{Recorder, What, Witness},
    node::process,
    starvation,
};
use anyhow::{Context as _, Result, bail};
use std::{path::Path, sync::Arc, time::Duration};
use windlass::{JobLease, Store};

/// What a worker's store is made of in an actor: with the bug on trial, with leaders of a short term if the run wants that, and with a
/// witness of all that the worker asks of it.
pub(super) fn watched(
    order: &Order,
    work: &Work,
    store: Arc<dyn Store>,
    recorder: &Arc<Recorder>,
) -> Arc<dyn Store> {
    let store = match order.bug {
        Some(bug) => bug::wrap(bug, store, order.seed),
        None => store,
    };
    let slots = i64::try_from(work.slots * work.queues.len()).unwrap_or(i64::MAX);
    Arc::new(Witness::new(lead(order, work, store), Arc::clone(recorder), slots))
}

/// The store, where its leaders have a short term if the run wants that.
fn lead(order: &Order, work: &Work, store: Arc<dyn Store>) -> Arc<dyn Store> {
    let Some(term) = work.term_ms.map(Duration::from_millis) else { return store };
    let folder = order.history.parent().map(Path::to_path_buf).unwrap_or_default();
    Arc::new(Leading { store, term, folder, number: order.number })
}

/// Begins the history of an actor, and has it say when the machine gives it no processor.
pub(super) fn recorder(order: &Order) -> Result<Arc<Recorder>> {
    let recorder = Recorder::create(&order.history, order.number)
        .with_context(|| format!("cannot begin the history {}", order.history.display()))?;
    let recorder = Arc::new(recorder);
    starvation::watch(&recorder, Some(order.number.cast_signed()));
    Ok(recorder)
}

/// The part of an actor that is the same in every language: its handlers are foreign code, its history is written here.
pub struct Watch {
    order: Order,
    work: Work,
    recorder: Arc<Recorder>,
}

impl Watch {
    /// Begins, in a process of its own that was told `order`, on its main thread: ends with whoever started it.
    ///
    /// # Errors
    /// An order that is none, or is not for a worker; a history that cannot be begun.
    pub fn begin(order: &str) -> Result<Self> {
        let order: Order = serde_json::from_str(order).context("the order is none")?;
        let Role::Worker(work) = order.role.clone() else { bail!("this actor is a worker and nothing else") };
        process::die_with_parent()?;
        Ok(Self { recorder: recorder(&order)?, order, work })
    }

    /// The store as the worker is to use it.
    pub fn store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        watched(&self.order, &self.work, store, &self.recorder)
    }

    /// Notes what happened to a job that this worker has: the name of one of [`What`]'s, and its fields but for those that the lease tells,
    /// as a JSON object.
    ///
    /// # Errors
    /// What is no event.
    pub fn note(&self, lease: JobLease, name: &str, fields: &str) -> Result<()> {
        let mut event: serde_json::Map<String, serde_json::Value> = serde_json::from_str(fields)?;
        event.insert("worker".to_owned(), lease.worker.0.into());
        event.insert("id".to_owned(), lease.job.0.into());
        event.insert("seq".to_owned(), lease.claim.1.cast_signed().into());
        let what: What = serde_json::from_value(serde_json::json!({ name: event }))
            .with_context(|| format!("{name} of {fields} is no event"))?;
        self.recorder.note(what);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Outcome, ProcessLog};

    fn order(role: &Role, history: &Path) -> String {
        let order = Order {
            store: "sqlite:none".to_owned(),
            history: history.to_path_buf(),
            number: 3,
            seed: 0,
            bug: None,
            role: role.clone(),
        };
        serde_json::to_string(&order).expect("an order is JSON")
    }

    #[test]
    fn foreign_handlers_note_events_of_their_jobs_and_nothing_else() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("worker.history");
        let order: Order =
            serde_json::from_str(&order(&Role::Worker(Work::default()), &path)).expect("an order");
        let watch = Watch { recorder: recorder(&order).expect("begins"), work: Work::default(), order };
        let lease = JobLease {
            worker: windlass_core::WorkerId(7),
            job: windlass_core::JobId(8),
            claim: windlass_core::ClaimRef(1, 9),
            position: 0,
        };
        watch.note(lease, "Finished", r#"{"outcome":"retry"}"#).expect("an event");
        for (name, fields) in [("Finished", r#"{"outcome":"done"}"#), ("Ended", "{}"), ("Started", "{}")] {
            watch.note(lease, name, fields).expect_err(name);
        }
        let log = ProcessLog::parse("worker", &std::fs::read(&path).expect("is there")).expect("reads");
        let noted: Vec<What> = log.events.iter().map(|event| event.what).collect();
        assert_eq!(noted, [What::Finished { worker: 7, id: 8, seq: 9, outcome: Outcome::Retry }]);
    }

    #[test]
    fn an_order_for_somebody_else_is_refused() {
        let order = order(&Role::Listener, Path::new("none"));
        let error = Watch::begin(&order).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("this actor is a worker and nothing else"));
    }
}
