use super::{Site, done};
use crate::{BasePath, Role};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
};
use windlass::{JobId, JobState};

/// Looks until it is so.
async fn until(site: &Site, id: JobId, state: JobState) {
    let look = async {
        while site.state(id).await != state {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), look)
        .await
        .unwrap_or_else(|_| panic!("job {id} never {state}"));
}

#[tokio::test]
async fn a_turn_waits_for_a_job() {
    for site in Site::all().await {
        let first = site.enqueue("a", json!({})).await;
        let worker = site.register(json!({ "queues": { "mail": 1 } })).await;
        let job = site.jobs(&worker).await.remove(0);
        let turn = site.turn(&worker, json!({ "done": [done(&job, "complete")], "wait_s": 30 }));
        let enqueue = async {
            // From then on it waits.
            until(&site, first, JobState::Completed).await;
            site.enqueue("b", json!({ "x": 1 })).await
        };
        let (turn, id) = tokio::join!(turn, enqueue);
        assert_eq!(
            (&turn["jobs"][0]["id"], &turn["jobs"][0]["args"]),
            (&json!(id.to_string()), &json!({ "x": 1 }))
        );
    }
}

/// A worker whose places are all taken asked without a pause.
#[tokio::test]
async fn a_turn_that_wants_nothing_now_waits_for_news() {
    for site in Site::all().await {
        let id = site.enqueue("a", json!({})).await;
        let worker = site.register(json!({ "queues": { "mail": 2 } })).await;
        let job = site.jobs(&worker).await.remove(0);
        site.enqueue("b", json!({})).await;
        for want in [json!({}), json!({ "mail": 0 })] {
            let began = Instant::now();
            let turn = site.turn(&worker, json!({ "want": want, "wait_s": 1 })).await;
            assert_eq!((&turn["jobs"], &turn["cancel"]), (&json!([]), &json!([])));
            assert!(began.elapsed() >= Duration::from_secs(1), "answered after {:?}", began.elapsed());
        }
        let began = Instant::now();
        let waits = site.turn(&worker, json!({ "want": {}, "wait_s": 30 }));
        let cancels = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            site.client.cancel(&[id]).await.unwrap();
        };
        let (turn, ()) = tokio::join!(waits, cancels);
        assert_eq!(turn["cancel"], json!([job["receipt"]]));
        assert!(began.elapsed() < Duration::from_secs(28), "it was told after {:?}", began.elapsed());
        let began = Instant::now();
        site.turn(&worker, json!({ "want": {} })).await;
        assert!(began.elapsed() < Duration::from_secs(1), "who does not wait is answered");
    }
}

#[tokio::test]
async fn of_many_who_wait_each_gets_a_job() {
    for site in Site::all().await {
        let mut workers = Vec::new();
        for _ in 0..20 {
            workers.push(site.register(json!({ "queues": { "mail": 1 } })).await);
        }
        let turns = workers.iter().map(|worker| site.turn(worker, json!({ "wait_s": 30 })));
        let enqueue = async {
            for _ in 0..workers.len() {
                site.enqueue("a", json!({})).await;
            }
        };
        let (turns, ()) = tokio::join!(futures_util::future::join_all(turns), enqueue);
        let mut ids: Vec<_> =
            turns.iter().map(|turn| turn["jobs"][0]["id"].as_str().unwrap().to_owned()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), workers.len());
    }
}

#[tokio::test]
async fn answers_that_get_lost_lose_no_job_and_run_none_twice() {
    for site in Site::all().await {
        let mut ids = Vec::new();
        for _ in 0..25 {
            ids.push(site.enqueue("a", json!({})).await.to_string());
        }
        let worker = site.register(json!({ "queues": { "mail": 4 } })).await;
        let (mut said, mut again, mut settled) = (Vec::new(), false, 0);
        for n in 0_u64..10_000 {
            let count = said.len();
            let turn = site.turn(&worker, json!({ "done": said, "again": again }));
            // Two of three connections break, sooner or later.
            let turn = match n % 3 {
                0 => Some(turn.await),
                _ => tokio::time::timeout(Duration::from_micros(n * 37 % 4_000), turn).await.ok(),
            };
            let Some(turn) = turn else {
                again = true;
                continue;
            };
            let is_good = |word: &Value| word == "accepted" || word == "already";
            assert!(turn["settled"].as_array().unwrap().iter().all(is_good), "{turn}");
            (settled, again) = (settled + count, false);
            let jobs = turn["jobs"].as_array().unwrap();
            assert!(jobs.iter().all(|job| job["attempt"] == 1), "{turn}");
            said = jobs.iter().map(|job| done(job, "complete")).collect();
            if settled == ids.len() && said.is_empty() {
                break;
            }
        }
        assert_eq!(settled, ids.len());
        for id in ids {
            assert_eq!(site.state(JobId(id.parse().unwrap())).await, JobState::Completed);
        }
    }
}

#[tokio::test]
async fn who_asks_again_ends_the_wait_that_nobody_reads() {
    let site = Site::in_memory();
    let first = site.enqueue("a", json!({})).await;
    let worker = site.register(json!({ "queues": { "mail": 2 } })).await;
    let job = site.jobs(&worker).await.remove(0);
    let unread = site.turn(&worker, json!({ "done": [done(&job, "complete")], "wait_s": 30 }));
    let asks = async {
        until(&site, first, JobState::Completed).await;
        let turn = site.turn(&worker, json!({ "again": true })).await;
        assert_eq!(turn["jobs"], json!([]));
        let id = site.enqueue("b", json!({})).await;
        let turn = site.turn(&worker, json!({ "wait_s": 30 })).await;
        assert_eq!(turn["jobs"][0]["id"], id.to_string());
    };
    let (unread, ()) = tokio::join!(unread, asks);
    assert_eq!(unread["jobs"], json!([]));
}

/// Its jobs are another's a look or so after its lease, which is three seconds; a machine that has much to do may take ten times as long.
#[tokio::test]
async fn the_jobs_of_a_silent_worker_run_again_and_it_settles_nothing_any_more() {
    let lease = Duration::from_secs(1);
    for site in Site::all_stores().await {
        let id = site.enqueue("a", json!({})).await;
        let silent = site.register(json!({ "queues": { "mail": 1 }, "lease_s": lease.as_secs() })).await;
        // Its last sign of life is not before this.
        let asked = Instant::now();
        let late = site.jobs(&silent).await.remove(0);
        let heard = Instant::now();
        let worker = site.register(json!({ "queues": { "mail": 1 } })).await;
        let job = site.jobs(&worker).await.remove(0);
        assert_eq!(job["id"], id.to_string());
        let (most, least) = (asked.elapsed(), heard.elapsed());
        assert!(most >= lease, "taken from it {most:?} after it asked, on {}", site.name().await);
        assert!(least < lease + Duration::from_secs(30), "only after {least:?} on {}", site.name().await);
        let turn = format!("/{silent}/turn");
        site.work("POST", &turn, json!({ "done": [done(&late, "complete")] }))
            .await
            .refused(410, "lease_lost");
        site.work("POST", &turn, json!({})).await.refused(410, "lease_lost");
        assert_eq!(site.state(id).await, JobState::Running);
        site.turn(&worker, json!({ "done": [done(&job, "complete")], "want": {} })).await;
        assert_eq!(site.state(id).await, JobState::Completed);
    }
}

#[tokio::test]
async fn a_worker_that_waits_longer_than_its_lease_keeps_it() {
    let site = Site::in_memory();
    let id = site.enqueue("a", json!({})).await;
    let worker = site.register(json!({ "queues": { "mail": 1, "other": 1 }, "lease_s": 1 })).await;
    let job = site.jobs(&worker).await.remove(0);
    assert_eq!(site.turn(&worker, json!({ "wait_s": 4 })).await["jobs"], json!([]));
    let turn = site.turn(&worker, json!({ "done": [done(&job, "complete")] })).await;
    assert_eq!(turn["settled"], json!(["accepted"]));
    assert_eq!(site.state(id).await, JobState::Completed);
}

#[tokio::test]
async fn who_leaves_hands_back_at_once() {
    for site in Site::all().await {
        let id = site.enqueue("a", json!({})).await;
        let [leaves, stays] = [(); 2].map(|()| json!({ "queues": { "mail": 1 } }));
        let (leaves, stays) = (site.register(leaves).await, site.register(stays).await);
        site.jobs(&leaves).await;
        site.work("DELETE", &format!("/{leaves}"), Value::Null).await.is(204);
        let job = site.jobs(&stays).await.remove(0);
        assert_eq!((&job["id"], &job["attempt"]), (&json!(id.to_string()), &json!(1)));
    }
}

#[tokio::test]
async fn a_stop_answers_those_who_wait_and_hands_back_what_they_have() {
    for site in Site::all().await {
        let (held, last) = (site.enqueue("a", json!({})).await, site.enqueue("a", json!({})).await);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = site.server.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            server.serve(listener, &BasePath::default(), async { drop(stopped.await) }).await
        });
        let worker = site.register(json!({ "queues": { "mail": 2 } })).await;
        let jobs = site.jobs(&worker).await;
        assert_eq!(jobs.len(), 2);
        let body = json!({ "done": [done(&jobs[1], "complete")], "wait_s": 30 }).to_string();
        let token = site.token(Role::Worker);
        let request = format!(
            "POST /work/v1/workers/{worker}/turn HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        // From then on it waits.
        until(&site, last, JobState::Completed).await;
        stop.send(()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"jobs\":[]"), "{answer}");
        serving.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(site.state(held).await, JobState::Available);
        assert_eq!(site.client.job(held).await.unwrap().unwrap().attempt, 0);
    }
}

#[tokio::test]
async fn who_waits_at_a_mounted_server_is_answered_when_it_is_closed() {
    for site in Site::all_stores().await {
        let (held, last) = (site.enqueue("a", json!({})).await, site.enqueue("a", json!({})).await);
        let worker = site.register(json!({ "queues": { "mail": 2 } })).await;
        let jobs = site.jobs(&worker).await;
        assert_eq!(jobs.len(), 2);
        let waits = site.turn(&worker, json!({ "done": [done(&jobs[1], "complete")], "wait_s": 30 }));
        let closes = async {
            // From then on it waits.
            until(&site, last, JobState::Completed).await;
            site.server.close().await;
        };
        let (turn, ()) = tokio::join!(waits, closes);
        assert_eq!(turn["jobs"], json!([]));
        let job = site.client.job(held).await.unwrap().unwrap();
        assert_eq!((job.state, job.attempt), (JobState::Available, 0), "{}", site.name().await);
        site.work("POST", "", json!({ "queues": { "mail": 1 } })).await.refused(503, "unavailable");
        assert_eq!(site.send_text("GET", "/readyz", &[], "").await.text, "stopping\n");
    }
}
