//! An older state is put back under programs that have the file open: what they remember is of the state before.

use crate::fixture::{Fixture, job};
use windlass_core::{ClaimRequest, JobStore, KeyLimit, KeyLimitsChange, NewJob, QueueDemand};

fn of(queue: &'static str) -> NewJob {
    job("test").with_queue(queue)
}

/// A store whose file is as it was before it did this, with queues "a" and "b": as `.restore` does it, in one transaction, under programs that have it open.
async fn put_back_after(lost: impl AsyncFnOnce(&Fixture)) -> Fixture {
    let f = Fixture::new();
    f.enqueue(&[of("a"), of("b")]).await.unwrap();
    let copy = f.folder.path().join("copy.db");
    let other = rusqlite::Connection::open(f.path()).unwrap();
    other.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    lost(&f).await;
    other.execute("ATTACH ?1 AS old", [copy.to_str().unwrap()]).unwrap();
    let put_back = "SELECT group_concat(format('DELETE FROM main.%s; INSERT INTO main.%s SELECT * FROM old.%s;', name, name, name), '')
        FROM sqlite_schema WHERE type = 'table'";
    let put_back: String = other.query_one(put_back, [], |row| row.get(0)).unwrap();
    other.pragma_update(None, "foreign_keys", false).unwrap();
    other.execute_batch(&format!("BEGIN IMMEDIATE; {put_back} COMMIT")).unwrap();
    f
}

async fn put_back() -> Fixture {
    put_back_after(async |f| drop(f.enqueue(&[of("later")]).await.unwrap())).await
}

/// Each job is in the queue that it was for, whatever the program remembers of queues.
async fn has_no_old_names(f: &Fixture, queues: [&'static str; 3]) {
    for queue in queues {
        let id = f.enqueue(&[of(queue)]).await.unwrap()[0];
        assert_eq!(f.job(id).await.unwrap().unwrap().queue, queue);
    }
}

#[tokio::test]
async fn an_older_state_that_is_put_back_is_taken_as_it_is() {
    has_no_old_names(&put_back().await, ["new", "later", "a"]).await;
}

/// Other programs may have gone on since, just as far as this one knew, or beyond.
#[tokio::test]
async fn an_older_state_that_another_program_went_on_from_is_taken_as_it_is() {
    for jobs in [1, 3] {
        let f = put_back().await;
        f.another().enqueue(&vec![of("new"); jobs]).await.unwrap();
        has_no_old_names(&f, ["later", "new", "a"]).await;
    }
}

/// Where the job of a number stands is remembered as well.
#[tokio::test]
async fn jobs_are_found_where_another_program_went_on_from_an_older_state() {
    let f = put_back_after(async |f| drop(f.enqueue(&[of("a")]).await.unwrap())).await;
    let ids = f.another().enqueue(&[of("b")]).await.unwrap();
    has_no_old_names(&f, ["a", "b", "a"]).await;
    assert_eq!(f.job(ids[0]).await.unwrap().unwrap().queue, "b");
}

/// And so is whose keys have limits: this one had changed them as often as another program has now.
#[tokio::test]
async fn limits_of_keys_hold_where_another_program_went_on_from_an_older_state() {
    let serial = KeyLimitsChange::Default(KeyLimit::serial());
    let f = put_back_after(async |f| {
        f.limit_keys("later", &serial).await.unwrap();
        f.enqueue(&[of("later").with_key("k")]).await.unwrap();
    })
    .await;
    let other = f.another();
    other.enqueue(&[of("other")]).await.unwrap();
    other.limit_keys("new", &serial).await.unwrap();
    other.enqueue(&vec![of("new").with_key("k"); 2]).await.unwrap();
    for _ in 0..2 {
        let worker = f.worker().await;
        let request = ClaimRequest { worker, queues: vec![QueueDemand::new("new", 10)] };
        let claims = other.claim(&request).await.unwrap().claims;
        assert_eq!(claims.iter().map(|claim| claim.jobs.len()).sum::<usize>(), 1);
        f.deregister(worker).await.unwrap();
    }
}
