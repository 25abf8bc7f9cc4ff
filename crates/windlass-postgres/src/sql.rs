//! The SQL files, rendered for one schema.

/// One version of the tables. Once released it never changes.
pub(crate) struct Tables {
    pub(crate) file: &'static str,
    /// The oldest program, by the newest version that it knows, that may work on the schema after it.
    pub(crate) compatible_with: i32,
}

/// The step to each version, in order.
pub(crate) const TABLES: &[Tables] = &[
    Tables { file: include_str!("../sql/tables/001_log.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/002_results.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/003_cancel_requests.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/004_unique.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/005_edits.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/006_id_blocks.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/007_reports.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/008_events.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/009_retention.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/010_counters.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/011_schedules.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/012_limits.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/013_start_waits.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/014_keys.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/015_ids.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/016_audit.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/017_key_rates.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/018_replica_identity.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/019_key_lookahead.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/020_timings.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/021_worker_beat.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/022_cancelled_place.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/023_came_back.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/024_drained_workers.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/025_no_handler.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/026_worker_programs.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/027_event_ranges.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/028_places.sql"), compatible_with: 1 },
    Tables { file: include_str!("../sql/tables/029_timeline.sql"), compatible_with: 1 },
];

/// The current definition of every function and view, in the order of their dependencies. Each migration
/// creates them all anew. A change that programs of an older version cannot work with is a version of its own.
pub(crate) const FUNCTIONS: &[&str] = &[
    include_str!("../sql/functions/00_replaced.sql"),
    include_str!("../sql/functions/00_keep_view.sql"),
    include_str!("../sql/functions/01_snapshot.sql"),
    include_str!("../sql/functions/02_ranges.sql"),
    include_str!("../sql/functions/03_lane.sql"),
    include_str!("../sql/functions/04_enqueue.sql"),
    include_str!("../sql/functions/05_enqueue_key.sql"),
    include_str!("../sql/functions/06_fence.sql"),
    include_str!("../sql/functions/07_claim.sql"),
    include_str!("../sql/functions/08_claimed.sql"),
    include_str!("../sql/functions/08_no_handler.sql"),
    include_str!("../sql/functions/09_settle.sql"),
    include_str!("../sql/functions/10_outcomes.sql"),
    include_str!("../sql/functions/11_complete_in.sql"),
    include_str!("../sql/functions/12_worker.sql"),
    include_str!("../sql/functions/13_rescue.sql"),
    include_str!("../sql/functions/14_promote.sql"),
    include_str!("../sql/functions/15_acted.sql"),
    include_str!("../sql/functions/15_find.sql"),
    include_str!("../sql/functions/15_find_jobs.sql"),
    include_str!("../sql/functions/16_control.sql"),
    include_str!("../sql/functions/17_ring.sql"),
    include_str!("../sql/functions/17_subscriber.sql"),
    include_str!("../sql/functions/18_transplant.sql"),
    include_str!("../sql/functions/19_views.sql"),
    include_str!("../sql/functions/20_record.sql"),
    include_str!("../sql/functions/20_list.sql"),
    include_str!("../sql/functions/21_settings.sql"),
    include_str!("../sql/functions/22_move.sql"),
    include_str!("../sql/functions/23_truncate.sql"),
    include_str!("../sql/functions/24_maintain.sql"),
    include_str!("../sql/functions/25_forget.sql"),
    include_str!("../sql/functions/26_forget_lanes.sql"),
    include_str!("../sql/functions/27_results.sql"),
    include_str!("../sql/functions/28_cancel_requests.sql"),
    include_str!("../sql/functions/29_unique.sql"),
    include_str!("../sql/functions/30_replace.sql"),
    include_str!("../sql/functions/31_enqueue_unique.sql"),
    include_str!("../sql/functions/32_edit.sql"),
    include_str!("../sql/functions/33_reports.sql"),
    include_str!("../sql/functions/34_unique_singles.sql"),
    include_str!("../sql/functions/34_together.sql"),
    include_str!("../sql/functions/35_touch_jobs.sql"),
    include_str!("../sql/functions/36_enqueue_many_unique.sql"),
    include_str!("../sql/functions/40_event_history.sql"),
    include_str!("../sql/functions/41_changes.sql"),
    include_str!("../sql/functions/41_happened.sql"),
    include_str!("../sql/functions/41_event_cursor.sql"),
    include_str!("../sql/functions/41_events.sql"),
    include_str!("../sql/functions/42_retention.sql"),
    include_str!("../sql/functions/43_fold.sql"),
    include_str!("../sql/functions/44_timings.sql"),
    include_str!("../sql/functions/50_schedules.sql"),
    include_str!("../sql/functions/51_advance.sql"),
    include_str!("../sql/functions/52_set_schedule.sql"),
    include_str!("../sql/functions/60_limits.sql"),
    include_str!("../sql/functions/61_slots.sql"),
    include_str!("../sql/functions/62_starts.sql"),
    include_str!("../sql/functions/70_keys.sql"),
    include_str!("../sql/functions/71_key_room.sql"),
    include_str!("../sql/functions/72_key_route.sql"),
    include_str!("../sql/functions/72_key_straight.sql"),
    include_str!("../sql/functions/72_key_fresh.sql"),
    include_str!("../sql/functions/72_key_lookahead.sql"),
    include_str!("../sql/functions/72_key_pace.sql"),
    include_str!("../sql/functions/73_key_claim.sql"),
    include_str!("../sql/functions/73_key_queue.sql"),
    include_str!("../sql/functions/73_key_choice.sql"),
    include_str!("../sql/functions/74_key_limits.sql"),
    include_str!("../sql/functions/75_key_signals.sql"),
    include_str!("../sql/functions/76_forget_keys.sql"),
    include_str!("../sql/functions/77_key_rates.sql"),
    include_str!("../sql/functions/80_audit.sql"),
    include_str!("../sql/functions/81_deploys.sql"),
    include_str!("../sql/functions/98_granted.sql"),
    include_str!("../sql/functions/99_grants.sql"),
];

/// The newest schema version that this program knows.
pub(crate) const VERSION: u32 = TABLES.len() as u32;

/// Where the transaction ids of direct claims begin: 2^62, beyond every real one, within a signed 64 bits.
const DIRECT: i64 = 1 << 62;

/// Fills in `{direct}`, `{idle}` (the name that the idle flag's key is hashed from), and the schema: `{schema}` as an identifier, `{name}` as a string literal. The name was checked
/// to be plain, so quoting cannot be broken out of.
pub(crate) fn render(text: &str, schema: &str) -> String {
    text.replace("{direct}", &DIRECT.to_string())
        .replace("{schema}", &format!("\"{schema}\""))
        .replace("{idle}", &format!("'{schema}.idle'"))
        .replace("{name}", &format!("'{schema}'"))
}
