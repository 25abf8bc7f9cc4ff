//! What is done to many jobs at once: the same as one by one.

use crate::session::Session;
use std::sync::Arc;
use windlass_conformance::steps::{LATER, eventually, worker};
use windlass_core::{DeleteReply, JobId, JobStore, Settled, Store};

/// Jobs in every place, by the function that is told of them.
const PLACES: &str = "
    SELECT windlass.limit_keys('k', serial => true);
    SELECT windlass.enqueue('plain', '{}', 'q');
    SELECT windlass.enqueue('tagged', '{}', 'q', tags => '{urgent}');
    SELECT windlass.enqueue('scheduled', '{}', 'q', scheduled_at => now() + interval '1 hour');
    SELECT windlass.enqueue('other_lane', '{}', 'q', priority => 5);
    SELECT windlass.enqueue('key_in_log', '{}', 'k', key => 'a');
    SELECT windlass.enqueue_unique('unique', queue => 'q', unique_key => 'x');
    SELECT windlass.cancel(windlass.enqueue('cancelled_in_log', '{}', 'q'));
    SELECT windlass.delete(windlass.enqueue('deleted_in_log', '{}', 'q'));
    SELECT windlass.edit(windlass.enqueue('edited', '{}', 'q'), priority => 7);
    SELECT windlass.cancel((windlass.enqueue_unique('cancelled_unique', queue => 'q', unique_key => 'y', scheduled_at => now() + interval '1 hour')).id);
    SELECT windlass.enqueue_unique('has_its_key', queue => 'q', unique_key => 'y');
    INSERT INTO windlass.waiting (id, lane_id, available_at, state, max_attempts, kind, args, attributes)
    SELECT nextval('windlass.job_id_seq'), CASE s.state WHEN 'keyed' THEN windlass.keyed_lane('k', 0) ELSE windlass.lane_of('q', 0) END, now() + interval '1 hour', s.state, 20, s.state, '{}',
           CASE s.state WHEN 'keyed' THEN '{\"key\": \"a\"}' ELSE '' END
    FROM (VALUES ('retryable'), ('no_handler'), ('keyed')) AS s(state);
    INSERT INTO windlass.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, kind, args, attributes)
    SELECT nextval('windlass.job_id_seq'), now(), windlass.lane_of(d.queue, 0), 3, 20, 1, 'discarded', d.kind, '{}', d.attributes
    FROM (VALUES ('q', 'dead', ''), ('q', 'dead_tagged', '{\"tags\":[\"a\"]}'), ('k', 'dead_keyed', '{\"key\":\"a\"}')) AS d(queue, kind, attributes);";

/// A store with jobs in every place, and their ids: of those that are stored, and of two that are not.
async fn filled() -> (Session, String) {
    let session = Session::fresh().await;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    let worker = worker(&store, &["r"], &[], LATER).await;
    session
        .run("SELECT windlass.enqueue('done', '{}', 'r'); SELECT windlass.enqueue('running', '{}', 'r')")
        .await;
    let held = worker.take(2).await;
    assert_eq!(worker.complete(&held[0]).await, Settled::Accepted);
    session.run(PLACES).await;
    let ids = "SELECT (array_agg(id ORDER BY id) || '{0,1000000000000}')::text FROM (
        SELECT id FROM windlass.job UNION SELECT id FROM windlass.waiting UNION SELECT id FROM windlass.dead) AS x";
    let ids = session.value(ids).await;
    (session, ids)
}

/// All that can be seen of it afterwards.
async fn seen(session: &Session) -> String {
    let all = "SELECT concat_ws(E'\\n',
        (SELECT string_agg(concat_ws(' ', id, kind, state, queue, priority, attempt, max_attempts, crash_count, reason), E'\\n' ORDER BY id) FROM windlass.jobs),
        (SELECT string_agg(concat_ws(' ', event, job_id, lane_id, attempt, kind), E'\\n' ORDER BY job_id, event) FROM windlass.event),
        (SELECT string_agg(concat_ws(' ', action, target, count), E'\\n' ORDER BY id) FROM windlass.audit),
        (SELECT string_agg(concat_ws(' ', job_id, lane_id), E'\\n' ORDER BY 1) FROM windlass.cancelled_in_log),
        (SELECT string_agg(job_id::text, ' ' ORDER BY 1) FROM windlass.cancel_request),
        (SELECT string_agg(concat_ws(' ', job_id, is_over, key), ' ' ORDER BY 1) FROM windlass.key_signal))";
    session.value(all).await
}

#[tokio::test]
async fn what_is_done_at_once_is_what_is_done_one_by_one() {
    for action in ["cancel", "retry", "delete"] {
        let mut ended = Vec::new();
        for call in [
            format!("SELECT windlass.act_on('{action}', $1::text::bigint[])"),
            format!(
                "SELECT windlass.{action}(u.id) FROM unnest($1::text::bigint[]) WITH ORDINALITY AS u(id, n) ORDER BY u.n"
            ),
        ] {
            let (session, ids) = filled().await;
            session.client.batch_execute("SET windlass.actor = 'anna'").await.unwrap();
            let rows = session.client.query(&session.fixture.text(&call), &[&ids]).await.unwrap();
            let answers: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let mut lines: Vec<_> = seen(&session).await.lines().map(str::to_owned).collect();
            lines.sort(); // the audit's are in the order in which they came to be
            ended.push((answers, lines));
        }
        assert!(ended[0].0.len() > 20, "{:?}", ended[0].0);
        assert_eq!(ended[0], ended[1], "{action}");
    }
}

#[tokio::test]
async fn an_id_that_comes_twice_is_done_once() {
    let session = Session::fresh().await;
    let id: i64 = session.value("SELECT windlass.enqueue('k')").await;
    let answers = format!("SELECT array_agg(a) FROM windlass.act_on('cancel', '{{{id},{id}}}') AS a");
    assert_eq!(session.value::<Vec<String>>(&answers).await, ["cancelled", "finished"]);
}

/// Between the look for them and the lock of their lane, a claim hands some of them out.
#[tokio::test]
async fn what_is_claimed_meanwhile_is_running() {
    let session = Session::fresh().await;
    let worker = session.register("'{q}'").await;
    let ids: Vec<i64> =
        session.value("SELECT array_agg(windlass.enqueue('k', '{}', 'q')) FROM generate_series(1, 5)").await;
    let claimer = session.fixture.sql().await;
    let claim = format!("BEGIN; SELECT windlass.claim({worker}, ARRAY['q'], ARRAY[3])");
    claimer.batch_execute(&session.fixture.text(&claim)).await.unwrap();
    let canceller = session.fixture.sql().await;
    let call = session.fixture.text("SELECT array_agg(a) FROM windlass.act_on('cancel', $1) AS a");
    let asked =
        tokio::spawn(
            async move { canceller.query_one(&call, &[&ids]).await.unwrap().get::<_, Vec<String>>(0) },
        );
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    eventually("it waits for the lane", || async { (session.value::<i64>(waits).await > 0).then_some(()) })
        .await;
    claimer.batch_execute("COMMIT").await.unwrap();
    assert_eq!(asked.await.unwrap(), ["running", "running", "running", "cancelled", "cancelled"]);
}

/// A schema of before has no such function; a program of now does the same one by one.
#[tokio::test]
async fn an_older_schema_does_it_one_by_one() {
    let session = Session::fresh().await;
    session.run("DROP FUNCTION windlass.act_on").await;
    let store = session.fixture.store().await;
    let ids: Vec<i64> =
        session.value("SELECT array_agg(windlass.enqueue('k')) FROM generate_series(1, 70)").await;
    let ids: Vec<JobId> = ids.into_iter().map(JobId).collect();
    assert_eq!(store.delete(&ids).await.unwrap(), [DeleteReply::Deleted; 70]);
}
