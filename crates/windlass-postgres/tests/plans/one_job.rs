//! What is done to one job costs a few pages whatever statistics say: right after a table was emptied, analysed and filled again they say that nothing is in it.

use crate::{session::Session, statistics::hold_by_lies};

/// Enough that to walk an index of them shows.
const JOBS: i64 = 20_000;

/// The first id of jobs in the log, half of which are to be stepped over, of such that wait for their time, for their next attempt, for a handler, for their key's turn, and of dead ones.
async fn fill(session: &Session) -> Vec<i64> {
    session
        .run(&format!(
            "SET synchronous_commit = off; SELECT windlass.limit_keys('k', concurrency => 1);
             INSERT INTO windlass.job (lane_id, kind, args, enqueued_at)
             SELECT l.lane, 'k', '{{}}', 'epoch' FROM (SELECT windlass.lane_of('q', 0) AS lane) AS l, generate_series(1, {JOBS});
             INSERT INTO windlass.cancelled_in_log (job_id, lane_id, xid) SELECT j.id, j.lane_id, j.xid FROM windlass.job j ORDER BY j.id DESC LIMIT {JOBS} / 2;
             INSERT INTO windlass.waiting (id, lane_id, available_at, state, max_attempts, kind, args, attributes)
             SELECT nextval('windlass.job_id_seq'), l.lane, now() + interval '1 hour', s.state, 20, s.state, '{{}}', CASE s.state WHEN 'keyed' THEN '{{\"key\": \"a\"}}' ELSE '' END
             FROM (VALUES ('scheduled'), ('retryable'), ('no_handler'), ('keyed')) AS s(state)
             CROSS JOIN LATERAL (SELECT CASE s.state WHEN 'keyed' THEN windlass.keyed_lane('k', 0) ELSE windlass.lane_of('q', 0) END AS lane) AS l, generate_series(1, {JOBS});
             UPDATE windlass.waiting SET available_at = now() WHERE id IN (SELECT h.id FROM windlass.waiting h WHERE h.state = 'scheduled' ORDER BY h.id DESC LIMIT 1000);
             INSERT INTO windlass.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, kind, args)
             SELECT nextval('windlass.job_id_seq'), now(), windlass.lane_of('q', 0), 1, 20, 0, 'discarded', 'dead', '{{}}' FROM generate_series(1, {JOBS})"
        ))
        .await;
    let ids = "SELECT min(id) FROM windlass.job UNION ALL SELECT min(id) FROM windlass.waiting GROUP BY state UNION ALL SELECT min(id) FROM windlass.dead";
    session
        .client
        .query(&session.fixture.text(ids), &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect()
}

#[tokio::test]
async fn whatever_statistics_say_what_is_done_to_one_job_touches_few_pages() {
    let session = Session::fresh().await;
    let ids = fill(&session).await;
    assert_eq!(ids.len(), 6);
    session.run("SELECT windlass.enqueue_unique('k', scheduled_at => now() + interval '1 hour', unique_key => 'a')").await;
    let all = ids.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    let mut calls = vec![
        "windlass.promote(10)".to_owned(),
        "windlass.enqueue_unique('k', unique_key => 'a')".to_owned(),
        "windlass.forget_errors(100)".to_owned(),
        format!("windlass.ended_jobs('{{{all}}}')"),
    ];
    calls.extend(
        ["cancel", "retry", "delete"].map(|action| format!("windlass.act_on('{action}', '{{{all}}}')")),
    );
    for id in ids {
        for call in ["job_record", "cancel", "retry", "edit", "delete"] {
            let how = if call == "edit" { ", priority => 5" } else { "" };
            calls.push(format!("windlass.{call}({id}{how})"));
        }
    }
    hold_by_lies(&session, &calls).await;
}
