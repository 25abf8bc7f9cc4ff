use std::time::Duration;

/// Makes a test of every rule of the contract, in one module per noun.
///
/// Takes the name of an async function without parameters that returns a fresh
/// [`Fixture`](crate::Fixture). The calling crate needs tokio with `macros` and `rt-multi-thread`.
#[macro_export]
macro_rules! suite {
    ($make_fixture:ident) => {
        $crate::rules! { $make_fixture
            enqueue: ids_come_in_order, a_job_keeps_what_it_was_given, any_json_value_is_good_args,
                an_empty_batch_is_nothing, a_batch_is_all_or_none, what_breaks_a_limit_is_refused,
                the_furthest_schedule_is_stored, absurd_schedules_are_understood;
            once: a_repeated_call_stores_nothing, jobs_keep_what_they_were_given,
                other_keys_are_other_jobs, calls_at_once_store_once, a_failed_call_leaves_its_key_free,
                another_number_of_jobs_is_refused, an_empty_batch_uses_its_key, keys_are_limited,
                a_key_survives_reopening, a_key_is_forgotten_after_its_retention;
            unique: the_first_is_kept, a_batch_has_each_key_once, a_batch_of_one_key_is_one_job, until_finished, until_started, for_a_window,
                keys_are_made_of_what_is_said, a_bad_key_stores_nothing, a_rescued_job_keeps_its_key, what_was_cancelled_leaves_its_key,
                keys_last_as_long_as_their_jobs, races_are_won_by_one;
            conflicts: replace_while_scheduled, replace_while_available, replace_what_was_edited, a_started_job_is_not_replaced,
                a_replaced_job_waits_no_longer_than_it_may, the_last_of_a_batch_replaces, each_of_a_batch_is_told_its_own_fate, extend, error,
                a_retry_takes_the_key_again, retries_race_with_enqueues;
            replace_again: a_replaced_job_starts_anew, a_replaced_key_is_as_the_new_job_has_it, a_window_ends_however_often_its_job_is_replaced;
            claim: each_job_once_and_in_order, later_jobs_are_found_after_an_empty_answer,
                lower_priority_numbers_go_first, one_claim_covers_priorities_in_order,
                the_limit_holds_for_the_whole_queue, one_request_covers_several_queues,
                an_empty_queue_gives_an_empty_answer, a_claimed_job_is_running,
                a_paused_queue_gives_nothing, pausing_knows_its_queues, a_stranger_may_not_claim,
                a_claim_is_bounded_by_bytes, no_priority_starves;
            settle: a_whole_claim_completes, ranges_complete_what_they_name,
                a_range_never_reaches_into_another_claim, the_rest_leaves_exceptions_out,
                a_repeated_call_changes_nothing, the_first_fate_stands, retry_counts_the_attempt,
                snooze_uses_no_attempt, undecryptable_uses_no_attempt, discard_is_final, cancel_by_the_handler_is_final,
                return_is_available_at_once, parts_exceptions_and_the_rest_add_up,
                a_range_over_settled_jobs_takes_the_others, a_call_repeated_meanwhile_changes_nothing, any_error_text_is_storable, an_endless_delay_is_cut,
                an_empty_call_is_nothing;
            fence: an_unknown_claim_is_refused, another_workers_claim_is_refused,
                a_refused_entry_spoils_no_other, a_returned_job_is_out_of_reach, only_live_workers_write,
                deregistering_hands_everything_back;
            rescue: a_dead_workers_jobs_come_back, a_newcomer_rescues_nobody, the_silent_rescue_nobody, a_zombie_writes_nothing, a_small_crash_limit_discards_no_neighbours,
                an_ended_lease_is_kept_until_it_is_taken, a_live_worker_keeps_its_jobs,
                an_idle_worker_can_die, jobs_survive_many_deaths,
                a_repeated_settlement_hides_no_job,
                a_retried_job_keeps_its_attempts_through_a_crash;
            suspect: only_the_suspect_is_counted, a_cleared_suspect_is_one_of_many,
                the_innocent_are_never_discarded, a_crash_loop_ends, a_dead_worker_suspects_nobody;
            promote: not_before_its_time, a_due_job_comes, the_past_is_now,
                a_mixed_batch_is_split_by_time, it_says_when_the_next_is_due, it_keeps_to_its_limit,
                promoted_jobs_keep_their_lane;
            cancel: what_waits_is_cancelled, the_rest_is_left_alone, a_cancelled_job_is_skipped,
                a_cancelled_backlog_gives_nothing, a_repeated_id_is_cancelled_once,
                its_worker_is_asked, it_does_not_come_back, its_workers_end_cancels_it, a_retry_takes_it_back,
                a_request_ends_with_its_job;
            ends: what_ended_is_told, an_end_wakes;
            retry: a_retryable_job_comes_now, a_dead_job_gets_its_attempts_anew, a_job_that_was_cancelled_while_it_was_available_does_too,
                a_cancelled_job_comes_back, the_rest_is_left_alone, a_repeated_id_is_retried_once;
            edit: what_waits_is_changed, what_waits_can_be_put_off, a_changed_job_comes_once, a_changed_job_lives_on,
                the_rest_is_left_alone, encrypted_args_stay, no_job_is_put_off_beyond_its_expiry, attempts_that_were_used_stay, a_senseless_edit_is_refused,
                what_does_not_run_is_deleted, a_deleted_job_is_skipped, housekeeping_knows_them,
                an_edited_job_keeps_its_key;
            drains: a_heartbeat_tells_to_drain, what_a_draining_worker_holds_is_its_own, nobody_else_drains, a_drain_wakes_the_heartbeat;
            programs: what_a_worker_runs_is_listed, the_last_heartbeat_says_the_load, a_senseless_program_is_refused, a_senseless_worker_is_refused;
            deploys: another_version_marks_a_deploy, a_restart_marks_nothing, many_at_once_mark_one_deploy;
            no_handler: a_job_without_handler_waits, jobs_without_handler_are_counted, it_goes_to_one_who_knows_it, a_kind_that_is_named_twice_is_one, it_goes_to_one_who_takes_any,
                others_pass_a_job_without_handler, a_job_without_handler_twice_is_one, a_paused_queue_keeps_its_jobs_without_handler;
            attributes: they_reach_the_handler, they_survive_every_move, they_are_limited;
            expiry: a_claim_says_how_long_is_left, what_is_over_is_over, a_job_expires_wherever_it_was;
            unique_expiry: who_expired_leaves_its_key, who_was_claimed_too_late_leaves_its_key, who_began_in_time_keeps_its_key,
                a_unique_job_expires_after_a_time;
            results: a_result_is_kept, the_first_completion_stands, results_and_the_rest_add_up,
                many_results_come_in_any_order, each_completion_is_judged_by_itself, a_repeated_call_keeps_the_results, a_large_result_is_kept,
                results_of_a_running_claim_stay, a_result_survives_its_worker, a_result_goes_with_its_job;
            reports: what_is_said_is_seen, a_repeated_report_changes_nothing, who_holds_nothing_says_nothing, a_dead_worker_says_nothing,
                a_checkpoint_is_kept, the_newest_lines_are_kept, many_jobs_in_one_call, what_breaks_a_limit_is_refused,
                a_report_goes_with_its_job, reports_race_with_settlements;
            policy: everybody_sees_a_change, two_changes_are_both_kept, nonsense_is_refused;
            retain: what_is_settled_disappears, what_is_young_stays, what_is_unfinished_survives,
                running_jobs_settle_after_many_rotations, a_rescue_finds_jobs_of_old_segments,
                a_backlog_survives_in_order;
            limits: a_claim_needs_a_share, who_waits_claims_nothing, a_paused_queue_is_paused, a_pause_stops_starts, a_pause_is_told, a_heartbeat_tells, limits_show,
                nonsense_is_refused, a_queue_without_limits_is_free, a_dead_worker_gets_none;
            slots: the_sum_never_exceeds_the_limit, limits_change, what_ran_before_counts, slots_come_back, slots_are_evened_out,
                more_than_its_share_is_wanted, nobody_starves, a_turn_lasts_a_second, a_turn_ends_with_its_job, askers_race;
            starts: no_window_has_too_many, a_burst_is_kept, it_says_when_there_are_more, rates_change, a_longer_period_counts_what_is_known, a_new_count_is_added_to_the_last, both_limits_count;
            keys: a_limit_holds_over_workers, a_full_key_has_no_work, a_limit_holds_over_priorities, each_key_has_its_own_limit, every_settlement_makes_room,
                the_end_of_a_worker_makes_room, a_cancelled_job_makes_room, no_slot_leaks, claims_race,
                a_job_without_key_has_no_limit, limits_count_for_what_waits, limits_change, limits_end, a_paused_queue_gives_nothing,
                a_limit_of_the_queue_holds_too, a_unique_job_has_a_key, a_claim_is_bounded_by_bytes, what_waits_for_room_is_available,
                housekeeping_keeps_them, limits_show, taking_away_begins_nothing, nonsense_is_refused;
            keys_serial: one_after_the_other, only_its_own_jobs_wait, what_is_not_over_blocks, a_long_retry_blocks, an_end_is_kept_beside_a_removed_one,
                a_rescued_job_goes_first, an_end_frees_the_key, taking_the_blocker_away_frees_the_key, an_edited_blocker, a_replaced_blocker,
                taking_a_replaced_blocker_away,
                the_lowest_id_goes_first, a_dead_job_starts_anew, a_key_becomes_serial, a_key_is_serial_no_more, order_survives_races;
            keys_fair: a_noisy_key_hides_no_other, order_of_arrival_does_not_count, weights_divide, absence_is_no_credit,
                no_claim_is_one_keys, many_keys_take_turns, those_without_a_key_take_part, a_full_key_leaves_room, no_priority_starves;
            keys_wakeup: a_settlement_tells, the_end_of_a_worker_tells, taking_the_blocker_away_tells, a_change_of_limits_tells;
            keys_rate: no_window_has_too_many, a_spent_rate_has_no_work, what_a_rate_keeps_back_is_coming, a_job_counts_from_its_end, every_settlement_counts, the_end_of_a_worker_counts, each_key_has_its_own_rate,
                other_limits_hold_too, limits_change, limits_end, the_end_of_a_period_tells, nothing_is_due_without_need, housekeeping_keeps_what_counts,
                claims_race;
            costs: a_job_gets_all_it_costs_or_nothing, it_says_when_there_is_enough, no_window_costs_too_much, a_dear_job_is_not_overtaken,
                who_asked_first_goes_first, a_place_lapses, what_is_too_dear_takes_the_whole_window;
            events: each_event_is_told, rescues_and_returns_are_told, each_cursor_is_a_place_to_go_on, jobs_for_later_are_told_one_by_one, start_and_now,
                filters_leave_out, nonsense_is_refused, a_removed_history_is_refused, whatever_happens_is_told_once,
                a_crowd_is_told_of, what_outlives_the_others_of_its_claim_is_told;
            retention: rules_are_kept, nonsense_changes_nothing, the_last_are_kept_by_count, each_queue_by_its_own_age, whatever_is_removed_by_hand_counts_no_more,
                completed_jobs_stay_for_the_longest_time, many_go_in_steps, housekeepers_race;
            history: each_end_is_counted, claims_are_counted_in_parts, nothing_is_removed_uncounted, housekeepers_race, filters_and_steps,
                nonsense_is_refused, a_minute_is_bounded;
            timings: what_is_measured_is_read, failures_are_grouped, nonsense_is_refused, claims_say_who_was_never_put_off;
            inspect: each_job_in_its_state, a_state_filter_lists_that_state, filters_narrow, each_state_has_its_order, a_tag_finds_its_jobs, an_error_finds_its_jobs, args_find_their_jobs,
                a_token_belongs_to_its_filter, a_deep_backlog_hides_nothing,
                pages_follow_each_other, a_senseless_limit_is_refused, a_name_with_nul_is_refused, a_filter_by_what_can_be_no_name_is_refused, queues_count_their_jobs, queues_are_found_by_name,
                the_status_lists_workers, the_status_says_when_workers_are_left_out, a_dead_worker_is_not_live, errors_show_with_one_job,
                migrating_again_changes_nothing;
            available: any_available_asks_for_a_worker, what_dead_workers_hold_is_coming;
            oldest: a_job_waits_since_its_time, a_job_waits_since_it_came_back, a_job_of_a_full_key_waits_since_its_time;
            schedules: what_is_declared_is_listed, declaring_again_changes_what_is_another, a_bad_one_declares_none,
                pruning_removes_what_its_source_declares_no_longer, many_declare_at_once, who_prunes_does_so_alone, a_step_is_taken_once, many_decide_and_one_fires,
                a_changed_schedule_takes_no_old_step, a_paused_schedule_is_never_due, a_pause_keeps_the_queued_tick, the_longest_due_comes_first,
                a_bad_job_takes_no_step, many_steps_in_one_call, changes_are_told;
            audit: what_is_written_is_read, the_newest_come_first, pages_follow_each_other, filters_narrow, nonsense_is_refused,
                what_is_too_long_is_cut, many_write_at_once, the_old_are_removed, many_go_in_steps;
            leader: one_leads_at_a_time, resigning_hands_over, a_term_ends, a_dead_leaders_place_is_free, one_of_many_wins;
            wakeup: a_wait_ends, the_protocol_finds_every_job, a_dropped_wait_harms_nothing;
            concurrency: nothing_is_lost_or_done_twice, ten_thousand_tiny_enqueues,
                rescue_races_with_settle, cancel_races_with_claim, edit_races_with_claim, promotions_race;
            model: one_caller_agrees_with_the_model, a_crowd_loses_nothing;
            bulk: one_large_enqueue_drains;
        }
    };
}

/// Expands the table of [`suite!`]; not for direct use.
#[doc(hidden)]
#[macro_export]
macro_rules! rules {
    ($make_fixture:ident $($noun:ident: $($rule:ident),+;)+) => {
        $(mod $noun {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                $crate::suite::within_limit(async {
                    let fixture = super::$make_fixture().await;
                    $crate::$noun::$rule(&fixture).await;
                })
                .await;
            })+
        })+
    };
}

/// No rule takes that long, however slow the machine: one that hangs is to fail, by its name, and not to stop the whole run.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs a rule; not for direct use.
///
/// # Panics
/// When it takes ten minutes.
#[doc(hidden)]
pub async fn within_limit(rule: impl Future<Output = ()>) {
    tokio::time::timeout(LIMIT, rule).await.expect("ends within ten minutes");
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// A rule that is written but not in the table would never run.
    #[test]
    fn every_rule_is_in_the_table() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let table = include_str!("suite.rs");
        let mut rules = 0;
        for entry in fs::read_dir(sources).expect("sources") {
            let path = entry.expect("source").path();
            let Some(noun) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            if !path.is_file() {
                continue;
            }
            let source = fs::read_to_string(&path).expect("source");
            let after = |line: &str| {
                let name = line.strip_prefix("pub async fn ")?.split_once("(fixture: &dyn Fixture)")?.0;
                Some(name.to_owned())
            };
            let section = table.split(&format!("            {noun}: ")).nth(1).unwrap_or_default();
            let section = section.split(';').next().unwrap_or_default();
            for rule in source.lines().filter_map(after) {
                let listed = section.split([',', '\n']).any(|name| name.trim() == rule);
                assert!(listed, "add {rule} to the table of suite!, under {noun}");
                rules += 1;
            }
        }
        assert!(rules > 80, "found only {rules} rules");
    }
}
