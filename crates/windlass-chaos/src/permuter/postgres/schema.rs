//! A migrated schema, changed for the permuter: gates between the statements of its functions, leases that
//! can run out on a young server, and the bugs that tests plant.

use crate::permuter::{book::MAX_CRASHES, scenario::Patch};
use anyhow::{Context, ensure};
use tokio_postgres::Client;
use windlass_core::{JobStore, Settings};
use windlass_postgres::{PostgresOptions, PostgresStore};

/// The most gates that one transaction stops at; it passes later ones freely.
pub(crate) const MOST_GATES: i32 = 12;

/// gate(): waits until the driver lets this session go on. Only where the session has a number; each gate of
/// a transaction is a lock of its own, so that opening one never opens the next.
const GATE: &str = "
CREATE FUNCTION {schema}.gate() RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_session integer := nullif(current_setting('permuter.session', true), '')::integer;
    v_gate    integer;
BEGIN
    IF v_session IS NULL THEN RETURN true; END IF;
    v_gate := coalesce(nullif(current_setting('permuter.gate', true), '')::integer, 0) + 1;
    IF v_gate > {most} THEN RETURN true; END IF;
    PERFORM set_config('permuter.gate', v_gate::text, true);
    PERFORM pg_advisory_lock(v_session, v_gate);
    PERFORM pg_advisory_unlock(v_session, v_gate);
    RETURN true;
END $$";

/// An expression in IF leaves FOUND and ROW_COUNT alone.
const STOP: &str = "IF {schema}.gate() THEN END IF; ";

/// Where the gates stand: before which text of which function.
const GATES: &[(&str, &str)] = &[
    ("claim", "SELECT array_agg(l.id), array_agg(l.priority)"),
    ("claim", "v_began := clock_timestamp();"),
    ("settle", "v_segment := {schema}.current_segment();"),
    ("settle", "WITH entry AS MATERIALIZED ("),
    ("write_outcomes", "WITH entry AS MATERIALIZED ("),
    ("write_outcomes", "IF v_waits THEN"),
    ("find_locked", "SELECT f.* INTO place"), // both times: it looks, and looks again with the lock
    ("cancel", "INSERT INTO {schema}.cancelled_in_log (job_id, lane_id, xid)"),
    ("retry", "SELECT * INTO d FROM"),
    ("retry", "PERFORM pg_advisory_xact_lock(hashtext("),
    ("retry", "DELETE FROM {schema}.cancelled_in_log s"),
    ("retry", "SELECT * INTO f FROM"),
    ("end_worker", "UPDATE {schema}.worker SET ended_at"),
    ("end_worker", "v_segment := {schema}.current_segment();"),
    ("promote", "promoted := 0;"),
    ("suspect", "UPDATE {schema}.worker SET suspect_id"),
    ("maintain", "IF v_segment IS NOT NULL THEN"),
    ("move_jobs", "WITH gone AS (DELETE FROM {schema}.job j WHERE"),
    ("move_cursors", "WITH open AS MATERIALIZED"),
    ("maintain", "v_end := {schema}.truncate_segment("),
    ("take_unique", "IF v_places <> '{}' THEN"),
    ("edit_job", "INSERT INTO {schema}.cancelled_in_log (job_id, lane_id, xid)"),
    ("delete", "INSERT INTO {schema}.cancelled_in_log (job_id, lane_id, xid)"),
    ("report", "SELECT array_agg(c.seq IS NOT NULL"),
    ("report", "WITH new AS MATERIALIZED ("),
    ("share", "v_had := {schema}.lock_some(p_queues);"),
    ("share_slots", "IF slots = 0 AND p_want = 0 THEN"),
    ("advance_schedules", "v_now := clock_timestamp();"),
];

/// Housekeeping gives up sooner than it does for users, settling, singles that go together and shares later: who waits is decided by the order.
const ADJUSTMENTS: &[Patch] = &[
    Patch { function: "settle_outcomes", from: "lock_timeout TO '200ms'", to: "lock_timeout TO '10s'" },
    Patch { function: "put_unique_singles", from: "lock_timeout TO '20ms'", to: "lock_timeout TO '10s'" },
    Patch { function: "share", from: "lock_timeout TO '500ms'", to: "lock_timeout TO '10s'" },
    Patch { function: "end_shares", from: "lock_timeout TO '100ms'", to: "lock_timeout TO '10s'" },
    Patch { function: "truncate_segment", from: "lock_timeout TO '20ms'", to: "lock_timeout TO '4ms'" },
];

/// Creates the schema, with gates where the scenario wants them, and patches it. Its store is closed.
pub(crate) async fn create(
    url: &str,
    client: &Client,
    schema: &str,
    inside: bool,
    patches: &[Patch],
) -> anyhow::Result<PostgresStore> {
    let separator = if url.contains('?') { '&' } else { '?' };
    let store =
        PostgresStore::connect(&format!("{url}{separator}schema={schema}"), PostgresOptions::default())
            .await?;
    store.migrate().await?;
    store.configure(&Settings::DEFAULT.with_max_crashes(MAX_CRASHES)).await?;
    store.close().await;
    for change in ADJUSTMENTS.iter().chain(patches) {
        patch(client, schema, change.function, change.from, change.to).await?;
    }
    if inside {
        let gate = GATE.replace("{most}", &MOST_GATES.to_string());
        client.batch_execute(&render(&gate, schema)).await?;
        for (function, before) in GATES {
            patch(client, schema, function, before, &format!("{STOP}{before}")).await?;
        }
    }
    Ok(store)
}

/// Fills in the schema's name, quoted.
pub(crate) fn render(text: &str, schema: &str) -> String {
    text.replace("{schema}", &format!("\"{schema}\""))
}

/// Replaces text in a function's definition; the text must be there.
async fn patch(client: &Client, schema: &str, function: &str, from: &str, to: &str) -> anyhow::Result<()> {
    let find = "SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE n.nspname = $1 AND p.proname = $2";
    let row = client
        .query_opt(find, &[&schema, &function])
        .await?
        .with_context(|| format!("schema {schema} has no function {function}"))?;
    let definition: String = row.get(0);
    let (from, to) = (render(from, schema), render(to, schema));
    ensure!(definition.contains(&from), "function {function} does not contain {from:?}: {definition}");
    client.batch_execute(&definition.replace(&from, &to)).await?;
    Ok(())
}
