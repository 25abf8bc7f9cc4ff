//! Requests to cancel jobs that came back meanwhile are carried out some at a time, and none holds up others.

use crate::{cluster::Fixture, session::Session};
use windlass_conformance::steps::eventually;

/// Requests of a worker for these jobs, an expression of SQL: as if they had come back while the requests were made.
async fn ask(s: &Session, jobs: &str) -> i32 {
    let worker = s.register("'{q}'").await;
    s.run(&format!(
        "INSERT INTO windlass.cancel_request (job_id, lane_id, seq, worker_id)
         SELECT j.id, l.id, 1, {worker} FROM windlass.jobs j JOIN windlass.lane l ON l.queue = j.queue AND l.priority = j.priority WHERE j.id IN ({jobs})"
    ))
    .await;
    worker
}

/// After a bulk cancellation they held their lane for as long as all of them took, and longer than a call may.
#[tokio::test]
async fn a_heartbeat_sees_to_a_thousand_at_most() {
    let s = Session::fresh().await;
    s.run("SELECT windlass.enqueue('k', queue => 'q') FROM generate_series(1, 1500)").await;
    let worker = ask(&s, "SELECT id FROM windlass.jobs").await;
    let left = "SELECT count(*) FROM windlass.cancel_request";
    for expected in [500, 0] {
        s.run(&format!("SELECT * FROM windlass.cancel_requests({worker})")).await;
        assert_eq!(s.value::<i64>(left).await, expected);
    }
    let cancelled = "SELECT count(*) FROM windlass.jobs WHERE state = 'cancelled'";
    assert_eq!(s.value::<i64>(cancelled).await, 1500);
}

/// The first lane was free, and what was asked for in it was not: requests of other lanes waited for as long.
#[tokio::test]
async fn a_request_whose_job_somebody_changes_hides_none_of_another_lane() {
    let s = Session::of(Fixture::fresh().await).await;
    let mut ids = Vec::new();
    for priority in [0, 5] {
        let later = format!(
            "SELECT windlass.enqueue('k', queue => 'q', priority => {priority}, scheduled_at => now() + interval '1 day')"
        );
        ids.push(s.value::<i64>(&later).await);
    }
    let worker = ask(&s, "SELECT id FROM windlass.waiting").await;
    let editor = s.fixture.sql().await;
    let edit = format!("BEGIN; SELECT windlass.edit({}, max_attempts => 5)", ids[0]);
    editor.batch_execute(&s.fixture.text(&edit)).await.unwrap();
    eventually("the other is cancelled", || async {
        s.run(&format!("SELECT * FROM windlass.cancel_requests({worker})")).await;
        let waiting = s.value::<Vec<i64>>("SELECT array_agg(id) FROM windlass.waiting").await;
        (waiting == ids[..1]).then_some(())
    })
    .await;
    editor.batch_execute("COMMIT").await.unwrap();
}
