use crate::fixture::{Fixture, demand, jobs};
use std::time::Duration;
use windlass_core::{Disposition, JobStore, Wake};

/// Far beyond anything that can pass: a test that needs it has failed.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(60);

#[tokio::test]
async fn an_enqueue_between_arming_and_waiting_is_not_missed() {
    let f = Fixture::new();
    let mut wakeup = f.wakeup();
    wakeup.arm().await;
    f.add(1).await;
    assert_eq!(wakeup.wait(LONG).await, Wake::Hint);
    wakeup.disarm();
}

#[tokio::test]
async fn another_handle_of_the_process_wakes() {
    let f = Fixture::new();
    let other = f.another();
    let mut wakeup = f.wakeup();
    wakeup.arm().await;
    let batch = jobs(1);
    let (wake, added) = tokio::join!(wakeup.wait(LONG), other.enqueue(&batch));
    added.unwrap();
    assert_eq!(wake, Wake::Hint);
}

#[tokio::test]
async fn what_brings_no_work_wakes_nobody() {
    let f = Fixture::new();
    f.add(1).await;
    let worker = f.worker().await;
    let mut wakeup = f.wakeup();
    wakeup.arm().await;
    f.heartbeat(worker).await.unwrap();
    let claims = f.claim(&demand(worker, 1)).await.unwrap().claims;
    f.complete(worker, &claims[0]).await;
    assert_eq!(wakeup.wait(SHORT).await, Wake::Timeout);
}

#[tokio::test]
async fn unhandled_returned_and_resumed_work_wakes() {
    let f = Fixture::new();
    f.add(2).await;
    let worker = f.worker().await;
    let (one, two) = (f.take_one(worker).await, f.take_one(worker).await);
    let mut wakeup = f.wakeup();
    wakeup.arm().await;
    f.except(worker, &one, Disposition::NoHandler).await;
    assert_eq!(wakeup.wait(LONG).await, Wake::Hint);
    wakeup.arm().await;
    f.except(worker, &two, Disposition::Return).await;
    assert_eq!(wakeup.wait(LONG).await, Wake::Hint);
    f.pause("default", true).await.unwrap();
    wakeup.arm().await;
    f.pause("default", false).await.unwrap();
    assert_eq!(wakeup.wait(LONG).await, Wake::Hint);
}
