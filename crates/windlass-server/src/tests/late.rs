//! Writes that the store does, and does not answer in time, or at all.

use super::{
    replays::{again, is_replay, nightly},
    site::Site,
};
use crate::Role;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use windlass::{Client, JobId, Schedule, testing};
use windlass_core::{
    AuditEntry, AuditFilter, AuditPage, AuditStore, DueSchedules, Error, ErrorKind, Leader, Result,
    ScheduleFilter, ScheduleRecord, ScheduleStep, ScheduleStore, SchedulesPut, Store, TimingStore, WorkerId,
    async_trait, wrap_store,
};

/// What becomes of an answer.
#[derive(Clone, Copy)]
enum Answers {
    InTime,
    Late,
    Lost,
}

struct Late {
    store: Arc<dyn Store>,
    answers: Mutex<Answers>,
}

impl Late {
    fn set(&self, answers: Answers) {
        *self.answers.lock().unwrap() = answers;
    }

    async fn answer<T>(&self, answer: Result<T>) -> Result<T> {
        let answers = *self.answers.lock().unwrap();
        match answers {
            Answers::InTime => answer,
            Answers::Late => {
                tokio::time::sleep(Duration::from_secs(3_600)).await;
                answer
            }
            Answers::Lost => Err(Error::new(ErrorKind::Ambiguous, "the connection broke")),
        }
    }
}

wrap_store!(@ Late, store, [], capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect
    rescue promote maintain settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs
    any_available coming queues_by history status events wakeup close);

#[async_trait]
impl ScheduleStore for Late {
    async fn put_schedules(&self, schedules: &[Schedule], prune: Option<&str>) -> Result<SchedulesPut> {
        self.store.put_schedules(schedules, prune).await
    }

    async fn schedules(&self, filter: &ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        self.store.schedules(filter).await
    }

    async fn remove_schedules(&self, names: &[String]) -> Result<Vec<bool>> {
        self.store.remove_schedules(names).await
    }

    async fn pause_schedules(&self, names: &[String], paused: bool) -> Result<Vec<bool>> {
        self.answer(self.store.pause_schedules(names, paused).await).await
    }

    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        self.store.due_schedules(limit).await
    }

    async fn advance_schedules(&self, steps: &[ScheduleStep]) -> Result<Vec<Option<Vec<JobId>>>> {
        self.answer(self.store.advance_schedules(steps).await).await
    }
}

#[async_trait]
impl AuditStore for Late {
    async fn append_audit(&self, entries: &[AuditEntry]) -> Result<()> {
        let appended = self.store.append_audit(entries).await;
        if entries.iter().any(|entry| entry.action == "mark") {
            self.answer(appended).await
        } else {
            appended
        }
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<AuditPage> {
        self.store.audit(filter).await
    }
}

impl TimingStore for Late {}

#[async_trait]
impl Leader for Late {
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        self.store.lead(worker, term).await
    }

    async fn resign(&self, worker: WorkerId) -> Result<()> {
        self.store.resign(worker).await
    }
}

/// A repetition did it once more.
#[tokio::test(start_paused = true)]
async fn what_may_have_been_done_under_a_key_is_not_done_again() {
    let late =
        Arc::new(Late { store: Arc::clone(testing::client().store()), answers: Mutex::new(Answers::InTime) });
    let site = Site::of(Client::from_store(Arc::<Late>::clone(&late)), |builder| builder);
    site.client.schedules().put([nightly()]).await.unwrap();
    let post = async |path: &str, key: &str, body| again(&site, Role::Operator, path, key, body).await;
    let (run, mark) = (("/schedules/nightly/run", Value::Null), ("/marks", json!({"label": "v7"})));
    for (key, answers, status, code) in
        [("a", Answers::Late, 504, "timeout"), ("b", Answers::Lost, 503, "ambiguous")]
    {
        for (path, body) in [&run, &mark] {
            late.set(answers);
            post(path, key, body.clone()).await.refused(status, code);
            late.set(Answers::InTime);
            for _ in 0..2 {
                let told = post(path, key, body.clone()).await.refused(409, "conflict");
                assert!(told.text.contains("may have done this") && !is_replay(&told), "{}", told.text);
            }
        }
        post(mark.0, key, json!({"label": "v8"})).await.refused(422, "idempotency_key_reused");
        // What does nothing more when it is done again is.
        late.set(answers);
        post("/schedules/nightly/pause", key, Value::Null).await.refused(status, code);
        late.set(Answers::InTime);
        assert_eq!(post("/schedules/nightly/pause", key, Value::Null).await.status, 204);
    }
    assert_eq!(site.client.jobs(&Default::default()).await.unwrap().len(), 2);
    assert_eq!(site.get("/marks").await.is(200)["items"].as_array().unwrap().len(), 2);
    post(run.0, "c", Value::Null).await.is(200);
    assert_eq!(site.client.jobs(&Default::default()).await.unwrap().len(), 3);
}
