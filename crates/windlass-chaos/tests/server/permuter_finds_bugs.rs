//! The permuter itself: bugs planted into the schema's functions are found.

use std::sync::Arc;
use windlass_chaos::permuter::{Patch, Plan, postgres::Server, scenarios};

/// How many orders are tried to find a bug.
const SAMPLE: u64 = 80;

/// Plants a bug, and expects some order of the scenario to show it in words like these.
async fn finds(scenario: &str, function: &'static str, from: &'static str, to: &'static str, expected: &str) {
    finds_all(scenario, &[(function, from, to)], expected).await;
}

/// The same of a bug in several functions.
async fn finds_all(scenario: &str, bug: &[(&'static str, &'static str, &'static str)], expected: &str) {
    let url = std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `make test` or `scripts/with-postgres cargo test`");
    let mut scenario = scenarios::find(scenario).expect(scenario);
    scenario.patches.extend(bug.iter().map(|&(function, from, to)| Patch { function, from, to }));
    let server = Arc::new(Server::new(url).with_places(1));
    let outcome = server.run(&scenario, &Plan::sample(SAMPLE)).await.expect("runs");
    server.close().await.expect("the schema goes");
    assert!(outcome.wrong().any(|wrong| wrong.contains(expected)), "not found: {expected}\n{outcome}");
    println!("{outcome}");
}

#[tokio::test]
async fn a_settlement_without_its_fence() {
    finds(
        "claim_vs_rescue_vs_settle",
        "settle",
        "PERFORM {schema}.fence(p_worker);",
        "",
        "after its lease was taken away",
    )
    .await;
}

#[tokio::test]
async fn a_cursor_that_forgets_who_was_late() {
    finds(
        "claim_vs_late_commit",
        "delta",
        "FROM pg_snapshot_xip(p_from) AS x WHERE pg_visible_in_snapshot(x, p_to)",
        "FROM pg_snapshot_xip(p_from) AS x WHERE false",
        "never came back",
    )
    .await;
}

#[tokio::test]
async fn a_claim_that_does_not_lock_its_lane() {
    finds(
        "claim_vs_claim",
        "claim",
        "OR NOT pg_try_advisory_xact_lock(hashtext(",
        "OR NOT pg_try_advisory_xact_lock(random()::integer + hashtext(random()::text || ",
        "duplicate key",
    )
    .await;
}

#[tokio::test]
async fn a_rescue_that_locks_nobody_out() {
    finds(
        "claim_vs_rescue_vs_settle",
        "end_worker",
        "IF p_crashed AND NOT pg_try_advisory_xact_lock(",
        "IF false AND NOT pg_try_advisory_xact_lock(",
        "after its lease was taken away",
    )
    .await;
}

#[tokio::test]
async fn a_heartbeat_that_wakes_the_dead() {
    finds("heartbeat_vs_rescue", "heartbeat", "AND ended_at IS NULL", "", "after its lease was taken away")
        .await;
}

#[tokio::test]
async fn a_cancel_that_does_not_lock_the_lane() {
    finds(
        "cancel_vs_claim",
        "find_locked",
        "PERFORM pg_advisory_xact_lock(",
        "PERFORM pg_advisory_xact_lock_shared(1 + ",
        "job",
    )
    .await;
}

#[tokio::test]
async fn a_settlement_that_counts_jobs_again() {
    finds(
        "settle_vs_settle",
        "settle_ranges",
        "coalesce(s.done > 0, false)",
        "false",
        "named by 2 settlements",
    )
    .await;
}

#[tokio::test]
async fn a_cancel_that_looks_once() {
    finds(
        "inside_cancel_vs_settle",
        "cancel",
        "CONTINUE WHEN f.place IN ('waiting', 'moved');",
        "IF f.place = 'waiting' THEN RETURN 'finished'; END IF;",
        "was not true of job",
    )
    .await;
}

/// Two that saw the same finished job both take its key over.
#[tokio::test]
async fn a_key_that_is_taken_over_as_it_was_seen() {
    finds(
        "inside_unique_vs_unique",
        "take_unique",
        "k.id = v.id AND k.xid = v.xid AS unchanged",
        "true AS unchanged",
        "took key 0",
    )
    .await;
}

/// Without one order of keys two bulks wait for one another.
#[tokio::test]
async fn keys_that_are_taken_in_any_order() {
    finds(
        "unique_bulk_vs_bulk",
        "take_unique",
        "WHERE u.key IS NOT NULL ORDER BY u.key)",
        "WHERE u.key IS NOT NULL ORDER BY u.place)",
        "met a deadlock",
    )
    .await;
}

/// The same of singles that go together.
#[tokio::test]
async fn singles_whose_keys_are_taken_in_any_order() {
    finds(
        "unique_singles_vs_bulk",
        "take_unique",
        "WHERE u.key IS NOT NULL ORDER BY u.key)",
        "WHERE u.key IS NOT NULL ORDER BY u.place)",
        "met a deadlock",
    )
    .await;
}

#[tokio::test]
async fn a_retry_that_does_not_ask_for_its_key() {
    finds(
        "unique_vs_retry",
        "retry",
        "IF d.attributes <> '' AND NOT {schema}.take_unique_again(d.attributes, p_id) THEN",
        "IF false THEN",
        "took key 0",
    )
    .await;
}

/// A claim hands out the job meanwhile.
#[tokio::test]
async fn a_job_that_is_replaced_while_it_is_handed_out() {
    finds(
        "unique_replace_vs_claim",
        "bury_untried",
        "{schema}.find_locked(p_id)",
        "{schema}.find_job(p_id)",
        "was replaced while it was Running",
    )
    .await;
}

#[tokio::test]
async fn a_key_of_what_is_stepped_over() {
    finds(
        "unique_vs_cancel",
        "unique_holders",
        "AND (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = h.id LIMIT 1) IS NULL THEN true",
        "THEN true",
        "had key",
    )
    .await;
}

#[tokio::test]
async fn an_edit_that_does_not_lock_the_lane() {
    finds(
        "edit_vs_claim",
        "find_locked",
        "PERFORM pg_advisory_xact_lock(",
        "PERFORM pg_advisory_xact_lock_shared(1 + ",
        "job",
    )
    .await;
}

#[tokio::test]
async fn a_deletion_that_does_not_lock_the_lane() {
    finds(
        "delete_vs_claim",
        "find_locked",
        "PERFORM pg_advisory_xact_lock(",
        "PERFORM pg_advisory_xact_lock_shared(1 + ",
        "job",
    )
    .await;
}

#[tokio::test]
async fn a_report_of_a_job_that_is_settled() {
    finds(
        "report_vs_settle",
        "report",
        "c.seq IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {schema}.settlement_of(r.lane, r.seq, r.job))",
        "c.seq IS NOT NULL",
        "was Accepted",
    )
    .await;
}

/// Not moved, and not missed by the proof either. Where housekeeping waits for its locks: in the other scenario a slow
/// machine decides whether it gets as far as TRUNCATE.
#[tokio::test]
async fn a_truncation_that_keeps_no_running_job() {
    finds_all(
        "truncate_waits_vs_settle_vs_claim",
        &[
            (
                "move_claims",
                "FROM {schema}.open_claims(NULL) o LOOP",
                "FROM {schema}.open_claims(NULL) o LIMIT 0 LOOP",
            ),
            (
                "still_needed",
                "FROM {schema}.open_claims(NULL) o LOOP",
                "FROM {schema}.open_claims(NULL) o LIMIT 0 LOOP",
            ),
        ],
        "is lost",
    )
    .await;
}

#[tokio::test]
async fn a_claim_that_does_not_count_what_others_hold() {
    finds(
        "key_limit_lowered_vs_settle",
        "claim_keyed",
        "m.most - coalesce(h.held, 0)",
        "m.most",
        "that are held of key 0",
    )
    .await;
}

/// A settlement that is still committing is passed for ever, so what it ended counts on.
#[tokio::test]
async fn room_that_a_late_settlement_does_not_make() {
    finds(
        "serial_claim_vs_settle",
        "make_room",
        "IF r.any AND NOT r.rest THEN PERFORM",
        "v_now := pg_snapshot_xmax(v_now)::text || ':' || pg_snapshot_xmax(v_now)::text || ':'; IF true THEN PERFORM",
        "never came back",
    )
    .await;
}

#[tokio::test]
async fn a_serial_key_that_is_let_go_by_a_failed_attempt() {
    finds(
        "serial_vs_failed_attempt",
        "make_room",
        "(b, r.key) IN (SELECT p.id, p.key FROM pending p)",
        "false",
        "begun and not over",
    )
    .await;
}

/// What workers hold already is not counted.
#[tokio::test]
async fn limits_of_keys_that_count_from_now_on() {
    finds(
        "key_limit_vs_claim",
        "key_limits_changed",
        "PERFORM {schema}.count_held(p_queue, p_keys);",
        "",
        "that are held of key 0",
    )
    .await;
}

#[tokio::test]
async fn shares_that_are_given_side_by_side() {
    finds(
        "inside_share_vs_share",
        "lock_limits",
        "PERFORM pg_advisory_xact_lock(",
        "PERFORM format('', ",
        "slots beside",
    )
    .await;
}

#[tokio::test]
async fn slots_for_who_has_lost_its_lease() {
    finds(
        "share_vs_rescue",
        "share",
        "PERFORM {schema}.read_committed('share'), {schema}.fence(p_worker);",
        "",
        "after its lease was taken away",
    )
    .await;
}

#[tokio::test]
async fn slots_that_the_dead_keep() {
    finds(
        "share_vs_rescue",
        "share_slots",
        "FROM {schema}.sharer s WHERE s.queue = p_queue AND s.worker_id <> p_worker;\n    SELECT l.level",
        "FROM {schema}.slot s CROSS JOIN LATERAL (SELECT false AS asks) x WHERE s.queue = p_queue AND s.worker_id <> p_worker;\n    SELECT l.level",
        "the only worker gets",
    )
    .await;
}

#[tokio::test]
async fn a_claim_that_needs_no_slot() {
    finds("limit_vs_claim", "claim", "IF v_limited THEN", "IF false THEN", "has no slot").await;
}

#[tokio::test]
async fn a_tick_by_an_old_record() {
    finds("fire_vs_fire", "advance_schedules", "AND s.version = u.version", "", "fired twice").await;
}

/// Two that look at once both take the step.
#[tokio::test]
async fn a_record_that_is_not_locked() {
    finds("inside_fire_vs_fire", "advance_schedules", "FOR UPDATE OF s SKIP LOCKED", "", "fired twice").await;
}

#[tokio::test]
async fn a_key_that_nobody_waits_for() {
    finds(
        "inside_unique_vs_settle",
        "unique_holders",
        "WHEN NOT h.until_finished THEN false",
        "WHEN true THEN false",
        "took key 0",
    )
    .await;
}

/// What keeps two claims apart that lock no lane in common.
#[tokio::test]
async fn a_queue_whose_keys_are_not_locked() {
    finds(
        "key_claim_vs_claim_of_another_priority",
        "lock_keys",
        "IF NOT p_wait THEN",
        "RETURN true; IF NOT p_wait THEN",
        "that are held of key 0",
    )
    .await;
}
