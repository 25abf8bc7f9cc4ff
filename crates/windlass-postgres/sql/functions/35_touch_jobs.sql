-- The same thing done to all jobs that a filter selects. Procedures, because they commit after every 500 jobs: cancel, edit and delete hold the
-- lock of a lane until their transaction ends, and its workers wait for it. So none of them can be called within a transaction, and each
-- runs with the rights of its caller.
--
-- Filter, all of it as in list_jobs: state, queue, kind, tag, error, args; everything => true where no part of it is named.
-- most: how many jobs at most. per_second: how many in a second at most. dry_run => true changes nothing.
-- They answer with one row: how many jobs were selected, and how many of them done, or would be; the others had moved on meanwhile.
-- One entry of the audit log says what was done; its actor is who acts (SET windlass.actor = 'anna'), or the current user. Where an error or a timeout ends the call, what was committed until then
-- stays, and the entry says so: its outcome is the error's SQLSTATE then. There is none only where the session itself ends, or a cancel comes just between
-- two steps. Jobs that a transaction of somebody else has are waited for, for as long as lock_timeout says, or ten seconds where that is 0, all of them together; what is not to be
-- had by then is passed over, and an error says at the end how many these were. From then on each is tried once, 64 together or one by one; where three in a row and the last are not to be had,
-- somebody most likely has their lane, and all of those 64 are passed over.

-- touch_jobs(action, states, new, ...): part of the procedures below. states: those to whom it can be done, in the order in which jobs go from one to the
-- next, so that one that moves on before its state is read is met there. new: the parameters of edit.
-- Invariant: each job is cancelled, retried or edited once in a call, wherever it goes meanwhile. So their ids are remembered, and one call does that to 2^25 jobs at most.
-- Cost: the listing, what is done to each job, and for one that is remembered 2 us and 16 to 32 bytes. Where nothing is to be had any more, some 20 ms for 64 jobs.
CREATE OR REPLACE PROCEDURE {schema}.touch_jobs(
    p_action text, p_states text[], p_new jsonb, p_state text, p_queue text, p_kind text, p_tag text, p_error text, p_args jsonb,
    p_everything boolean, p_most bigint, p_per_second double precision, p_dry_run boolean, INOUT selected bigint, INOUT done bigint)
    LANGUAGE plpgsql
AS $$
DECLARE
    v_filter json := json_strip_nulls(json_build_object(
        'state', p_state, 'queue', p_queue, 'kind', p_kind, 'tag', p_tag, 'error', p_error, 'args', p_args));
    v_noted  json := CASE WHEN p_new IS NULL THEN v_filter ELSE (v_filter::jsonb || jsonb_build_object( -- of args only that they change
        'edit', p_new - 'args' || CASE WHEN p_new ? 'args' THEN '{"args": "changed"}'::jsonb ELSE '{}' END))::json END;
    v_most   bigint := coalesce(p_most, 9223372036854775807);
    v_page   integer := least(500, greatest(1, floor(least(p_per_second, 500))));
    v_met    bigint[] := array_fill(0::bigint, ARRAY[1024]); -- the ids that are remembered: a hash table, half full at most; 0: a free place
    v_free   integer := 512;
    v_old    integer; -- how many of v_new come from a smaller table
    v_new    bigint[];
    v_id     bigint;
    v_place  integer;
    v_state  text;
    v_ids    bigint[];
    v_after  bigint[];
    v_sealed bigint[]; -- whose args are encrypted, where they are to be set
    v_began  timestamptz;
    v_rest   double precision;
    v_tried  integer; -- of v_ids, these many are behind us
    v_step   integer; -- and so many come next
    v_end    integer; -- up to there they are tried together, and one by one where that fails
    v_row    integer; -- so many of these could not be had, one after another
    v_last   boolean; -- whether the last of these comes next, before its turn
    v_mixed  boolean; -- whether it could be had then
    v_free_last boolean := true; -- whether those before these could be had together
    v_did    bigint;
    v_wait   integer; -- ms: for how long jobs that others have may still be waited for
    v_tried_at timestamptz;
    v_missed bigint := 0;
    v_code   text;
    v_actor  text := coalesce(nullif(current_setting('windlass.actor', true), ''), current_user);
    v_message text;
    v_detail text;
    v_context text;
BEGIN
    selected := 0;
    done := 0;
    v_wait := coalesce(nullif(1000 * extract(epoch FROM current_setting('lock_timeout')::interval), 0), 10000);
    CASE
        WHEN v_filter::text = '{}' AND p_everything IS NOT TRUE THEN
            RAISE 'the filter selects every job; name a state, a queue, a kind, a tag, an error or args, or say everything => true' USING ERRCODE = 'WL003';
        WHEN p_state <> ALL ('{scheduled,available,running,retryable,completed,cancelled,discarded}'::text[]) THEN
            RAISE 'unknown job state %; use one of scheduled, available, running, retryable, completed, cancelled, discarded', quote_literal(left(p_state, 64))
                USING ERRCODE = 'WL003';
        WHEN p_queue !~ '^[A-Za-z0-9_.:/-]{1,128}$' THEN -- as check_queue, check_job and attributes, which the caller may not call
            RAISE 'invalid queue name %; use 1 to 128 of letters, digits and _ - . : /', quote_literal(left(p_queue, 64)) USING ERRCODE = 'WL002';
        WHEN octet_length(p_kind) NOT BETWEEN 1 AND 200 OR p_kind ~ '[\u0001-\u0020\u007F-\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]' THEN
            RAISE 'invalid kind %; use 1 to 200 bytes without spaces or control characters', quote_literal(left(p_kind, 64)) USING ERRCODE = 'WL002';
        WHEN octet_length(p_tag) NOT BETWEEN 1 AND 100 OR p_tag ~ '[[:cntrl:]]' THEN
            RAISE 'a tag must be 1 to 100 bytes without control characters, got %', quote_literal(left(p_tag, 40)) USING ERRCODE = 'WL003';
        WHEN p_state <> ALL (p_states) THEN
            RAISE 'cannot % % jobs; it can be done to those that are %', p_action, left(p_state, 64), array_to_string(p_states, ', ') USING ERRCODE = 'WL003';
        WHEN p_dry_run IS NULL THEN
            RAISE 'dry_run must be true or false, got NULL' USING ERRCODE = 'WL003';
        WHEN p_per_second <= 0 OR p_per_second = 'NaN' THEN
            RAISE 'the jobs per second must be more than 0, got %', p_per_second USING ERRCODE = 'WL003';
        WHEN p_most < 0 THEN
            RAISE 'most must be 0 or more, got %', p_most USING ERRCODE = 'WL003';
        WHEN octet_length(p_error) NOT BETWEEN 1 AND 1000 THEN
            RAISE 'the text to look for in errors must be 1 to 1000 bytes, got %', octet_length(p_error) USING ERRCODE = 'WL003';
        WHEN jsonb_typeof(p_args) <> 'object' OR p_args = '{}' THEN
            RAISE 'the filter by args must be a JSON object with a member, as in {"user": 7}' USING ERRCODE = 'WL003';
        WHEN octet_length(v_noted::text) > 4096 THEN
            RAISE 'the filter must be at most 4096 bytes as JSON, as the audit log keeps it, got %', octet_length(v_noted::text) USING ERRCODE = 'WL003';
        ELSE
    END CASE;
    IF p_action <> 'delete' THEN v_most := least(v_most, 33554432); END IF;
    <<jobs>>
    FOREACH v_state IN ARRAY CASE WHEN p_state IS NULL THEN p_states ELSE ARRAY[p_state] END LOOP
        v_after := NULL;
        v_rest := NULL;
        WHILE selected < v_most LOOP
            BEGIN
                IF v_rest > 0 THEN PERFORM pg_sleep(least(v_rest, 1)); END IF; -- a second at a time, because it holds a snapshot
                v_rest := v_rest - 1;
                IF (v_rest > 0) IS NOT TRUE THEN
                    v_began := clock_timestamp();
                    SELECT coalesce(array_agg((l.job).id) FILTER (WHERE l.next IS NULL), '{}'), max(l.next),
                           coalesce(array_agg((l.job).id) FILTER (WHERE p_dry_run AND p_new ? 'args' AND l.next IS NULL AND {schema}.is_envelope((l.job).args)), '{}')
                        INTO v_ids, v_after, v_sealed
                        FROM {schema}.list_jobs(v_state, p_queue, p_kind, v_after, least(v_page, v_most - selected)::integer, 50000, p_tag, p_error, p_args) AS l;
                END IF;
            EXCEPTION WHEN OTHERS OR query_canceled THEN
                IF p_dry_run THEN RAISE; END IF;
                GET STACKED DIAGNOSTICS v_code = RETURNED_SQLSTATE, v_message = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL;
                EXIT jobs;
            END;
            IF v_rest > 0 THEN
                COMMIT;
                CONTINUE;
            END IF;
            IF p_action <> 'delete' THEN
                v_old := 0;
                v_new := '{}';
                IF cardinality(v_ids) > v_free THEN -- one twice as large, into which those of the old one go first
                    v_old := cardinality(v_met) / 2 - v_free;
                    v_free := cardinality(v_met);
                    v_ids := array_remove(v_met, 0::bigint) || v_ids;
                    v_met := array_fill(0::bigint, ARRAY[2 * v_free]);
                END IF;
                FOREACH v_id IN ARRAY v_ids LOOP
                    v_place := 1 + (hashint8(v_id) & (cardinality(v_met) - 1));
                    WHILE v_met[v_place] <> 0 AND v_met[v_place] <> v_id LOOP v_place := 1 + (v_place & (cardinality(v_met) - 1)); END LOOP;
                    CONTINUE WHEN v_met[v_place] = v_id;
                    v_met[v_place] := v_id;
                    v_free := v_free - 1;
                    v_new := v_new || v_id;
                END LOOP;
                v_ids := v_new[v_old + 1:];
            END IF;
            selected := selected + cardinality(v_ids);
            IF p_dry_run THEN
                done := done + (SELECT count(*) FROM unnest(v_ids) AS u(id) WHERE u.id <> ALL (v_sealed));
                EXIT WHEN v_after IS NULL;
                CONTINUE;
            END IF;
            v_tried := 0;
            v_end := cardinality(v_ids);
            v_step := v_end;
            v_row := 0;
            v_last := false;
            v_mixed := false;
            LOOP
                BEGIN
                    PERFORM set_config('windlass.actor', '', true); -- one entry for all of them, at the end
                    -- With locks of some lanes: who changes limits of keys waits for all of a queue's. Claims have a lane for milliseconds.
                    v_tried_at := clock_timestamp();
                    PERFORM set_config('lock_timeout', CASE WHEN v_step = 1 THEN greatest(v_wait, 2)::text
                                                            WHEN v_wait > 0 THEN {schema}.short_wait()
                                                            WHEN v_free_last THEN '50' ELSE '10' END, true);
                    IF p_action = 'edit' THEN
                        SELECT count(*) FILTER (WHERE t.did = 'edited') INTO v_did FROM (
                            SELECT {schema}.edit(u.id, (p_new->>'scheduled_at')::timestamptz, p_new->>'queue', (p_new->>'priority')::integer,
                                                 (p_new->>'max_attempts')::integer, p_new->'args') AS did
                            FROM unnest(v_ids[v_tried + 1:v_tried + v_step]) AS u(id)) AS t;
                    ELSE
                        SELECT count(*) FILTER (WHERE t.did IN ('cancelled', 'retried', 'deleted') OR t.did = 'running' AND p_action = 'cancel') INTO v_did
                            FROM {schema}.act_on(p_action, v_ids[v_tried + 1:v_tried + v_step]) AS t(did);
                    END IF;
                    v_free_last := v_free_last OR v_step > 1;
                    v_tried := v_tried + v_step;
                    v_row := 0;
                    v_mixed := v_mixed OR v_last;
                    v_last := false;
                    done := done + v_did;
                EXCEPTION WHEN OTHERS OR query_canceled THEN
                    GET STACKED DIAGNOSTICS v_context = PG_EXCEPTION_CONTEXT;
                    IF v_step > 1 AND SQLSTATE <> '57014' THEN
                        -- Two calls may wait for one another's lanes; each job by itself waits for one only.
                        v_end := least(v_end, v_tried + 64);
                        v_step := CASE WHEN v_step > 64 THEN 64 ELSE 1 END;
                        v_free_last := false;
                    ELSIF SQLSTATE IN ('55P03', '40P01') AND strpos(v_context, 'check_home()') = 0 THEN -- somebody has it; check_home refuses all of them
                        v_wait := v_wait - least(v_wait, 1000 * extract(epoch FROM clock_timestamp() - v_tried_at));
                        v_row := v_row + 1;
                        v_did := CASE WHEN v_last THEN v_end - v_tried ELSE 1 END;
                        v_tried := v_tried + v_did;
                        v_missed := v_missed + v_did;
                        v_last := v_wait = 0 AND v_row >= 3 AND NOT v_mixed AND v_tried < v_end;
                        IF v_last THEN
                            v_id := v_ids[v_end];
                            v_ids[v_end] := v_ids[v_tried + 1];
                            v_ids[v_tried + 1] := v_id;
                        END IF;
                    ELSE
                        GET STACKED DIAGNOSTICS v_code = RETURNED_SQLSTATE, v_message = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL;
                        EXIT jobs;
                    END IF;
                END;
                COMMIT;
                EXIT WHEN v_tried >= cardinality(v_ids);
                IF v_tried = v_end THEN
                    v_end := least(v_tried + 64, cardinality(v_ids));
                    v_step := v_end - v_tried;
                    v_row := 0;
                    v_last := false;
                    v_mixed := false;
                END IF;
            END LOOP;
            EXIT WHEN v_after IS NULL;
            v_rest := cardinality(v_ids) / p_per_second - extract(epoch FROM clock_timestamp() - v_began);
        END LOOP;
    END LOOP;
    IF v_code IS NULL AND v_missed > 0 THEN
        v_code := '55P03';
        v_detail := '';
        v_message := format('%s of %s jobs could not be had: transactions that are still open have them; commit them or roll them back '
                            '(pg_stat_activity and pg_prepared_xacts show them), or call again', v_missed, selected);
    END IF;
    IF p_dry_run IS NOT TRUE THEN
        PERFORM {schema}.append_audit(json_build_array(json_build_object(
            'actor', v_actor, 'action', 'jobs.' || p_action, 'target', 'jobs', 'filter', v_noted, 'count', done, 'outcome', v_code)));
    END IF;
    IF v_code IS NOT NULL THEN
        COMMIT;
        v_context := format('Of %s jobs that were selected %s are done, and stay so.', selected, done);
        IF v_detail = '' THEN RAISE '%', v_message USING ERRCODE = v_code, HINT = v_context; END IF;
        RAISE '%', v_message USING ERRCODE = v_code, DETAIL = v_detail, HINT = v_context;
    END IF;
END $$;

-- Within a transaction the server refuses COMMIT in words of its own, which nothing can catch; it shows the statements that led there, with what they say.

-- cancel_jobs(...): running ones count as done: their workers were asked.
CREATE OR REPLACE PROCEDURE {schema}.cancel_jobs(
    state text DEFAULT NULL, queue text DEFAULT NULL, kind text DEFAULT NULL, tag text DEFAULT NULL, error text DEFAULT NULL, args jsonb DEFAULT NULL,
    everything boolean DEFAULT false, most bigint DEFAULT NULL, per_second double precision DEFAULT NULL, dry_run boolean DEFAULT false,
    INOUT selected bigint DEFAULT NULL, INOUT done bigint DEFAULT NULL)
    LANGUAGE plpgsql
AS $$
BEGIN
    CALL /* not within a transaction: it commits as it goes */ {schema}.touch_jobs('cancel', '{scheduled,retryable,available,running}', NULL, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, selected, done);
END $$;

-- retry_jobs(...): dead, cancelled and retryable ones are available at once.
CREATE OR REPLACE PROCEDURE {schema}.retry_jobs(
    state text DEFAULT NULL, queue text DEFAULT NULL, kind text DEFAULT NULL, tag text DEFAULT NULL, error text DEFAULT NULL, args jsonb DEFAULT NULL,
    everything boolean DEFAULT false, most bigint DEFAULT NULL, per_second double precision DEFAULT NULL, dry_run boolean DEFAULT false,
    INOUT selected bigint DEFAULT NULL, INOUT done bigint DEFAULT NULL)
    LANGUAGE plpgsql
AS $$
BEGIN
    CALL /* not within a transaction: it commits as it goes */ {schema}.touch_jobs('retry', '{retryable,discarded,cancelled}', NULL, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, selected, done);
END $$;

-- delete_jobs(...): those that wait, are dead or cancelled.
CREATE OR REPLACE PROCEDURE {schema}.delete_jobs(
    state text DEFAULT NULL, queue text DEFAULT NULL, kind text DEFAULT NULL, tag text DEFAULT NULL, error text DEFAULT NULL, args jsonb DEFAULT NULL,
    everything boolean DEFAULT false, most bigint DEFAULT NULL, per_second double precision DEFAULT NULL, dry_run boolean DEFAULT false,
    INOUT selected bigint DEFAULT NULL, INOUT done bigint DEFAULT NULL)
    LANGUAGE plpgsql
AS $$
BEGIN
    CALL /* not within a transaction: it commits as it goes */ {schema}.touch_jobs('delete', '{scheduled,retryable,available,discarded,cancelled}', NULL, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, selected, done);
END $$;

-- edit_jobs(new, ...): sets the parameters of edit that the object new names, as in '{"queue": "slow", "priority": 5}', of those that wait; of dead and
-- cancelled ones where state names them and new has no scheduled_at.
CREATE OR REPLACE PROCEDURE {schema}.edit_jobs(
    new jsonb, state text DEFAULT NULL, queue text DEFAULT NULL, kind text DEFAULT NULL, tag text DEFAULT NULL, error text DEFAULT NULL, args jsonb DEFAULT NULL,
    everything boolean DEFAULT false, most bigint DEFAULT NULL, per_second double precision DEFAULT NULL, dry_run boolean DEFAULT false,
    INOUT selected bigint DEFAULT NULL, INOUT done bigint DEFAULT NULL)
    LANGUAGE plpgsql
AS $$
DECLARE
    v_states  text[] := '{scheduled,retryable,available}';
    v_unknown text;
    v_field   text;
BEGIN
    IF jsonb_typeof(new) IS DISTINCT FROM 'object' OR new = '{}' THEN
        RAISE 'the edit changes nothing; name scheduled_at, queue, priority, max_attempts or args, as in {"priority": 5}' USING ERRCODE = 'WL003';
    END IF;
    SELECT k INTO v_unknown FROM jsonb_object_keys(new) AS k WHERE k NOT IN ('scheduled_at', 'queue', 'priority', 'max_attempts', 'args') LIMIT 1;
    IF FOUND THEN
        RAISE 'a job has no %; an edit sets scheduled_at, queue, priority, max_attempts or args', quote_literal(left(v_unknown, 64)) USING ERRCODE = 'WL003';
    END IF;
    BEGIN
        v_field := 'scheduled_at'; PERFORM (new->>'scheduled_at')::timestamptz;
        v_field := 'priority'; PERFORM (new->>'priority')::integer;
        v_field := 'max_attempts'; PERFORM (new->>'max_attempts')::integer;
    EXCEPTION WHEN data_exception THEN
        RAISE 'field % of the edit cannot be read: %', v_field, SQLERRM USING ERRCODE = 'WL003';
    END;
    -- No job has this id: it checks the values.
    PERFORM {schema}.edit(0, (new->>'scheduled_at')::timestamptz, new->>'queue', (new->>'priority')::integer, (new->>'max_attempts')::integer, new->'args');
    IF state IN ('discarded', 'cancelled') THEN
        IF new ? 'scheduled_at' THEN
            RAISE 'a time cannot be set for % jobs; use retry_jobs, which makes them available at once', state USING ERRCODE = 'WL003';
        END IF;
        v_states := v_states || state;
    END IF;
    CALL /* not within a transaction: it commits as it goes */ {schema}.touch_jobs('edit', v_states, new, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, selected, done);
END $$;
