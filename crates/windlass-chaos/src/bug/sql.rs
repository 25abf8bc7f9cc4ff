use super::Bug;
use anyhow::{Context as _, Result, ensure};

/// A function of the schema, a piece of its text, and what stands there instead.
pub type Patch = (&'static str, &'static str, &'static str);

/// What the bug changes in the schema's functions.
pub fn patches(bug: Bug) -> Option<&'static [Patch]> {
    Some(match bug {
        Bug::NoFence => {
            &[("fence", "AND w.ended_at IS NULL", ""), ("end_worker", "HAVING count(*) > 0", "HAVING false")]
        }
        Bug::RescueByTimeAlone => &[
            ("overdue_workers", "+ w.lease <", "+ w.lease / 100 <"),
            ("rescue", "v_end < clock_timestamp() AND EXISTS", "EXISTS"),
            ("end_worker", "+ lease <", "+ lease / 100 <"),
        ],
        Bug::RescueReruns => &[("unsettled_jobs", "WHERE NOT s.whole AND", "WHERE true OR")],
        Bug::CrashNotCounted => {
            &[("end_worker", "least(j.crash_count + 1, greatest(j.crash_count, 2))", "j.crash_count")]
        }
        Bug::AttemptNotCounted => {
            &[("write_outcomes", "CASE WHEN o.disposition = 'retry' THEN 1 ELSE 0 END", "0")]
        }
        Bug::LateCommitsSkipped => &[("delta", "WHERE pg_visible_in_snapshot(x, p_to)", "WHERE false")],
        Bug::LostRetry => &[(
            "write_outcomes",
            "o.disposition IN ('retry', 'snooze', 'no_handler')",
            "o.disposition IN ('snooze', 'no_handler')",
        )],
        Bug::TruncatesUnclaimed => &[
            ("move_jobs", "WHERE NOT n.consumed", "WHERE false"),
            ("still_needed", "RETURN 'jobs that nobody has claimed'", "NULL"),
        ],
        Bug::RescuesOutOfTouch => &[
            ("overdue_workers", "r.heartbeat_at + r.lease / 2 >= clock_timestamp()", "true"),
            ("overdue_workers", "AND r.in_touch_since + w.lease <= clock_timestamp()", ""),
            (
                "heartbeat",
                "heartbeat_at = clock_timestamp(),",
                "heartbeat_at = CASE WHEN heartbeat_at + lease < clock_timestamp() THEN heartbeat_at ELSE clock_timestamp() END,",
            ),
        ],
        Bug::MoveUnnoticed => &[
            ("fence", "h.xmin = h.xid::xid", "true"),
            ("home_state", "WHEN h.xmin = h.xid::xid THEN", "WHEN true THEN 'home' WHEN true THEN"),
        ],
        Bug::UniqueForgetsRetries => &[(
            "unique_held",
            "(p_until_finished OR h.state <> 'retryable' AND h.attempt = 0)",
            "h.state <> 'retryable' AND h.attempt = 0",
        )],
        Bug::WindowsShort => {
            &[("take_unique", "p_windows[u.place] * v_us,", "p_windows[u.place] * v_us / 4,")]
        }
        Bug::UniqueNeverFree => {
            &[("unique_holders", "WHEN NOT h.until_finished THEN false", "WHEN true THEN true")]
        }
        Bug::ReplacedRuns => {
            &[("change_scheduled", "kind = p_kind, args = p_args::json, max_attempts", "kind = p_kind, max_attempts")]
        }
        Bug::ReplacedStays => &[("bury_untried", "IF f.place = 'log' AND f.seq IS NULL THEN", "IF f.place = 'log' AND f.seq IS NULL THEN
        buried := true;
        since := (SELECT j.enqueued_at FROM {schema}.job j WHERE j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = p_id AND j.attempt = 0);
        IF since IS NOT NULL THEN RETURN; END IF;")],
        Bug::MaxWaitForgotten => &[
            ("change_scheduled", "least(coalesce(p_due, v_now), h.enqueued_at + p_max_wait)", "coalesce(p_due, v_now)"),
        ],
        Bug::ExtendForgotten => {
            &[("take_unique", "greatest(k.expires, clock_timestamp() + p_windows[l.place] * v_us)", "k.expires")]
        }
        Bug::CancelledRuns => {
            &[("claim", "WHERE b.id NOT IN (SELECT g.job_id FROM gone g)", "")]
        }
        // Where they were looked for was passed.
        Bug::EventsForgetLate => &[
            (
                "new_claims",
                "CONTINUE WHEN v_hi[i] < p_pos",
                "CONTINUE WHEN v_hi[i] < greatest(p_pos, pg_snapshot_xmax(p_from))",
            ),
            (
                "new_completions",
                "CONTINUE WHEN v_hi[i] < p_xid",
                "CONTINUE WHEN v_hi[i] < greatest(p_xid, pg_snapshot_xmax(p_from))",
            ),
        ],
        // Each worker has one more than its share.
        Bug::SlotsOverrun => {
            &[("share_slots", "v_most := least(v_most, greatest(o.free, 0));", "v_most := v_most + 1;")]
        }
        // One for each, and all but one at most.
        Bug::SlotsLeak => &[(
            "share_slots",
            "greatest(o.free, 0)",
            "greatest(o.free - least(p_limit - 1, (SELECT count(*) FROM windlass.worker w WHERE w.ended_at IS NOT NULL)), 0)",
        )],
        Bug::KeySlotsLeak => &[(
            "make_room",
            "greatest(r.held - r.freed, 0)",
            "greatest(r.held - r.freed, CASE WHEN r.freed > 1 THEN 1 ELSE 0 END)",
        )],
        Bug::StartsLeak => &[(
            "rate_windows",
            "ARRAY[q.rate];",
            "ARRAY[greatest(q.rate - (SELECT count(*) FROM windlass.worker w WHERE w.ended_at IS NOT NULL), 1)];",
        )],
        Bug::StartsForgotten => {
            &[("rate_windows", "ARRAY[q.rate_period + v_grace]", "ARRAY[q.rate_period / 2]")]
        }
        Bug::EndedNotCounted => &[("note_ended", "HAVING max(u.at) + r.period > v_now", "HAVING false")],
        Bug::SerialOutOfTurn => &[
            ("claim_keyed", "AND h.id >= t.low_id", ""),
            ("claim_keyed", ".key_of(h.attributes), h.id LIMIT", ".key_of(h.attributes), h.id DESC LIMIT"),
        ],
        Bug::SerialOvertakes => &[
            ("claim_keyed", "m.serial AND coalesce(h.begun, '{}') <> '{}' AS again", "false AS again"),
            ("make_room", "(b, r.key) IN (SELECT p.id, p.key FROM pending p)", "false"),
        ],
        Bug::TicksUnfenced => &[("advance_schedules", "AND s.version = u.version", "")],
        // One in 64: ids are 16 apart.
        Bug::TicksLost => {
            &[("advance_schedules", "WHERE u.id IS NOT NULL ORDER BY", "WHERE u.id / 16 % 64 <> 0 ORDER BY")]
        }
        Bug::TicksQueuedLost => &[("advance_schedules", "queued_tick = u.queued", "queued_tick = NULL")],
        // Those of which the last fires.
        Bug::TicksMissedLost => &[(
            "advance_schedules",
            "WHERE u.id IS NOT NULL ORDER BY",
            "WHERE u.id IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM unnest(p_steps, ids) AS x(step, id) JOIN windlass.schedule s ON s.name = p_names[x.step] COLLATE \"C\"
                WHERE x.id = u.id AND s.next_tick < p_decided[x.step] AND s.definition::jsonb @> '{\"missed\": \"last\"}') ORDER BY",
        )],
        // Settlements would write what was enqueued before them.
        Bug::AsyncCommit => &[("settle", "set_config('synchronous_commit', 'local', true)", "1")],
        Bug::CancelsRunning => &[("cancel", "IF f.seq IS NOT NULL THEN", "IF false THEN")],
        _ => return None,
    })
}

/// Plants a bug in a migrated schema.
///
/// # Errors
/// When a function no longer has the text that the bug replaces: then the bug must be written anew.
pub async fn plant(bug: Bug, database: &tokio_postgres::Client, schema: &str) -> Result<()> {
    if bug == Bug::AsyncCommit {
        let text = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$";
        database.batch_execute(text).await?;
    }
    patch(bug.name(), patches(bug).unwrap_or_default(), database, schema).await
}

/// Changes functions of a migrated schema; `name` is for the message.
///
/// # Errors
/// As [`plant`].
pub async fn patch(
    name: &str,
    patches: &[Patch],
    database: &tokio_postgres::Client,
    schema: &str,
) -> Result<()> {
    for (function, from, to) in patches {
        let text =
            "SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                    WHERE n.nspname = $1 AND p.proname = $2";
        let row = database.query_one(text, &[&schema, function]).await;
        let text: String = row.with_context(|| format!("no function {schema}.{function}"))?.get(0);
        ensure!(text.contains(from), "{name}: {function} has no text {from:?} any more");
        database.batch_execute(&text.replace(from, &to.replace("{schema}", schema))).await?;
    }
    Ok(())
}
