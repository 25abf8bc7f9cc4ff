//! Workers of a store that fails.

use super::{Site, done};
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::oneshot;
use windlass::{Client, Error, ErrorKind, JobState};
use windlass_core::{ClaimRequest, Claimed, SettleReply, SettleRequest, Store, wrap_store};

/// Says that somebody is there, and lets them go on.
type Gate = (oneshot::Sender<()>, oneshot::Receiver<()>);

/// A store whose answers can be lost, and whose jobs may have killed workers.
#[derive(Clone)]
struct Flawed {
    store: Arc<dyn Store>,
    loses_claim: Arc<AtomicBool>,
    loses_settle: Arc<AtomicBool>,
    /// The next settlement that was made says so, and waits before it is answered.
    slow_settle: Arc<Mutex<Option<Gate>>>,
    has_killers: bool,
}

fn lost() -> Error {
    Error::new(ErrorKind::Ambiguous, "the answer was lost")
}

wrap_store! {
    impl JobStore for Flawed, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister report checkpoints suspect rescue promote maintain settings
     status configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history events wakeup close]

    async fn claim(&self, request: &ClaimRequest) -> windlass::Result<Claimed> {
        let mut claimed = self.store.claim(request).await?;
        if !claimed.claims.is_empty() && self.loses_claim.swap(false, Ordering::Relaxed) {
            return Err(lost());
        }
        if self.has_killers {
            claimed.claims.iter_mut().flat_map(|claim| &mut claim.jobs).for_each(|job| job.crash_count = 2);
        }
        Ok(claimed)
    }

    async fn settle(&self, request: &SettleRequest) -> windlass::Result<SettleReply> {
        let reply = self.store.settle(request).await?;
        let slow = self.slow_settle.lock().unwrap().take();
        if let Some((made, go_on)) = slow {
            made.send(()).unwrap();
            go_on.await.unwrap();
        }
        if self.loses_settle.swap(false, Ordering::Relaxed) { Err(lost()) } else { Ok(reply) }
    }
}

fn flawed(has_killers: bool) -> (Site, Flawed) {
    let store = Arc::clone(windlass::testing::client().store());
    let flawed = Flawed {
        store,
        loses_claim: Arc::default(),
        loses_settle: Arc::default(),
        slow_settle: Arc::default(),
        has_killers,
    };
    (Site::of(Client::from_store(Arc::new(flawed.clone())), |builder| builder), flawed)
}

#[tokio::test]
async fn a_settlement_whose_answer_was_lost_is_said_again() {
    let (site, store) = flawed(false);
    let id = site.enqueue("a", json!({})).await;
    let worker = site.register(json!({ "queues": { "mail": 1 } })).await;
    let job = site.jobs(&worker).await.remove(0);
    store.loses_settle.store(true, Ordering::Relaxed);
    let body = json!({ "done": [done(&job, "complete")] });
    site.work("POST", &format!("/{worker}/turn"), body.clone()).await.refused(503, "ambiguous");
    assert_eq!(site.turn(&worker, body).await["settled"], json!(["already"]));
    assert_eq!(site.state(id).await, JobState::Completed);
}

/// A turn that nobody reads takes no jobs, also where it still settled when its worker asked again.
#[tokio::test]
async fn a_turn_that_settles_takes_no_jobs_once_its_worker_asked_again() {
    let (site, store) = flawed(false);
    site.enqueue("a", json!({})).await;
    let worker = site.register(json!({ "queues": { "mail": 2 } })).await;
    let job = site.jobs(&worker).await.remove(0);
    let (made, is_made) = oneshot::channel();
    let (go_on, goes_on) = oneshot::channel();
    *store.slow_settle.lock().unwrap() = Some((made, goes_on));
    let said = json!({ "done": [done(&job, "complete")] });
    let unread = site.turn(&worker, said.clone());
    let asks = async {
        is_made.await.unwrap();
        assert_eq!(site.turn(&worker, json!({ "again": true })).await["jobs"], json!([job]));
        let id = site.enqueue("b", json!({})).await;
        go_on.send(()).unwrap();
        id
    };
    let (unread, id) = tokio::join!(unread, asks);
    assert_eq!(unread["jobs"], json!([]));
    let turn = site.turn(&worker, said).await;
    assert_eq!((&turn["settled"], &turn["jobs"][0]["id"]), (&json!(["already"]), &json!(id.to_string())));
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_ends_the_worker_when_its_jobs_are_settled() {
    let (site, store) = flawed(false);
    let first = site.enqueue("a", json!({})).await;
    let worker = site.register(json!({ "queues": { "mail": 2 } })).await;
    let job = site.jobs(&worker).await.remove(0);
    let second = site.enqueue("a", json!({})).await;
    store.loses_claim.store(true, Ordering::Relaxed);
    let turn = format!("/{worker}/turn");
    site.work("POST", &turn, json!({})).await.refused(503, "ambiguous");
    assert_eq!(site.turn(&worker, json!({ "again": true })).await["jobs"], json!([job]));
    assert_eq!(site.turn(&worker, json!({})).await["jobs"], json!([]));
    site.work("POST", &turn, json!({ "done": [done(&job, "complete")] })).await.refused(410, "lease_lost");
    assert_eq!(site.state(first).await, JobState::Completed);
    let worker = site.register(json!({ "queues": { "mail": 2 } })).await;
    assert_eq!(site.jobs(&worker).await[0]["id"], second.to_string());
}

#[tokio::test]
async fn of_jobs_that_may_have_killed_workers_one_is_out_at_a_time() {
    let (site, _) = flawed(true);
    for _ in 0..3 {
        site.enqueue("a", json!({})).await;
    }
    let worker = site.register(json!({ "queues": { "mail": 3 } })).await;
    let mut said: Vec<Value> = Vec::new();
    for _ in 0..3 {
        let turn = site.turn(&worker, json!({ "done": said })).await;
        let jobs = turn["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 1);
        assert_eq!(site.turn(&worker, json!({})).await["jobs"], json!([]));
        said = vec![done(&jobs[0], "complete")];
    }
    assert_eq!(site.turn(&worker, json!({ "done": said })).await["settled"], json!(["accepted"]));
}
