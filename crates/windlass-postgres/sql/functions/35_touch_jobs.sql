-- The same thing done to all jobs that a filter selects. Procedures, because they commit after every 500 jobs: cancel, edit and delete hold the
-- lock of a lane until their transaction ends, and its workers wait for it. So none of them can be called within a transaction, and each
-- runs with the rights of its caller.
--
-- Filter, all of it as in list_jobs: state, queue, kind, tag, error, args; everything => true where no part of it is named.
-- most: how many jobs at most. per_second: how many in a second at most. dry_run => true changes nothing.
-- They answer with one row: how many jobs were selected, and how many of them done, or would be; the others had moved on meanwhile.
-- One entry of the audit log says what was done; its actor is the current user.

-- touch_jobs(action, states, new, ...): part of the procedures below. states: those to whom it can be done, in the order in which jobs go from one to the
-- next, so that one that moves on meanwhile is met again. new: the parameters of edit.
CREATE OR REPLACE PROCEDURE {schema}.touch_jobs(
    p_action text, p_states text[], p_new jsonb, p_state text, p_queue text, p_kind text, p_tag text, p_error text, p_args jsonb,
    p_everything boolean, p_most bigint, p_per_second double precision, p_dry_run boolean, INOUT selected bigint, INOUT done bigint)
    LANGUAGE plpgsql
AS $$
DECLARE
    v_filter json := json_strip_nulls(json_build_object(
        'state', p_state, 'queue', p_queue, 'kind', p_kind, 'tag', p_tag, 'error', p_error, 'args', p_args));
    v_most   bigint := coalesce(p_most, 9223372036854775807);
    v_page   integer := least(500, greatest(1, floor(least(p_per_second, 500))));
    v_met    bigint[] := '{}'; -- edited jobs may be met again, where they are then
    v_state  text;
    v_ids    bigint[];
    v_after  bigint[];
    v_began  timestamptz;
    v_did    bigint;
BEGIN
    selected := 0;
    done := 0;
    CASE
        WHEN v_filter::text = '{}' AND p_everything IS NOT TRUE THEN
            RAISE 'the filter selects every job; name a state, a queue, a kind, a tag, an error or args, or say everything => true' USING ERRCODE = 'WL003';
        WHEN p_state <> ALL (p_states) THEN
            RAISE 'cannot % % jobs; it can be done to those that are %', p_action, left(p_state, 64), array_to_string(p_states, ', ') USING ERRCODE = 'WL003';
        WHEN p_per_second <= 0 OR p_per_second = 'NaN' THEN
            RAISE 'the jobs per second must be more than 0, got %', p_per_second USING ERRCODE = 'WL003';
        WHEN p_most < 0 THEN
            RAISE 'most must be 0 or more, got %', p_most USING ERRCODE = 'WL003';
        WHEN octet_length(p_error) NOT BETWEEN 1 AND 1000 THEN
            RAISE 'the text to look for in errors must be 1 to 1000 bytes, got %', octet_length(p_error) USING ERRCODE = 'WL003';
        WHEN jsonb_typeof(p_args) <> 'object' OR p_args = '{}' THEN
            RAISE 'the filter by args must be a JSON object with a member, as in {"user": 7}' USING ERRCODE = 'WL003';
        WHEN octet_length(v_filter::text) > 4096 THEN
            RAISE 'the filter must be at most 4096 bytes as JSON, as the audit log keeps it, got %', octet_length(v_filter::text) USING ERRCODE = 'WL003';
        ELSE
    END CASE;
    FOREACH v_state IN ARRAY CASE WHEN p_state IS NULL THEN p_states ELSE ARRAY[p_state] END LOOP
        v_after := NULL;
        WHILE selected < v_most LOOP
            v_began := clock_timestamp();
            SELECT coalesce(array_agg((l.job).id) FILTER (WHERE l.next IS NULL), '{}'), max(l.next)
                INTO v_ids, v_after
                FROM {schema}.list_jobs(v_state, p_queue, p_kind, v_after, least(v_page, v_most - selected)::integer, 50000, p_tag, p_error, p_args) AS l;
            IF p_action = 'edit' THEN
                v_ids := ARRAY(SELECT u.id FROM unnest(v_ids) AS u(id) WHERE u.id NOT IN (SELECT unnest(v_met))); -- hashed: <> ALL looks at each
                v_met := v_met || v_ids;
            END IF;
            selected := selected + cardinality(v_ids);
            v_did := cardinality(v_ids);
            IF p_dry_run IS NOT TRUE THEN
                SELECT count(*) FILTER (WHERE t.did IN ('cancelled', 'running', 'retried', 'edited', 'deleted')) INTO v_did FROM (
                    SELECT CASE p_action
                        WHEN 'cancel' THEN {schema}.cancel(u.id) WHEN 'retry' THEN {schema}.retry(u.id) WHEN 'delete' THEN {schema}.delete(u.id)
                        ELSE {schema}.edit(u.id, (p_new->>'scheduled_at')::timestamptz, p_new->>'queue', (p_new->>'priority')::integer,
                                           (p_new->>'max_attempts')::integer, p_new->'args') END AS did
                    FROM unnest(v_ids) AS u(id)) AS t
                WHERE NOT (t.did = 'running' AND p_action <> 'cancel');
                COMMIT;
            END IF;
            done := done + v_did;
            EXIT WHEN v_after IS NULL;
            IF p_dry_run IS NOT TRUE THEN
                PERFORM pg_sleep(cardinality(v_ids) / p_per_second - extract(epoch FROM clock_timestamp() - v_began));
            END IF;
        END LOOP;
    END LOOP;
    IF p_dry_run IS NOT TRUE THEN
        PERFORM {schema}.append_audit(json_build_array(json_build_object(
            'actor', current_user, 'action', 'jobs.' || p_action, 'target', 'jobs', 'filter', v_filter, 'count', done)));
    END IF;
END $$;

-- cancel_jobs(...): running ones count as done: their workers were asked.
CREATE OR REPLACE PROCEDURE {schema}.cancel_jobs(
    state text DEFAULT NULL, queue text DEFAULT NULL, kind text DEFAULT NULL, tag text DEFAULT NULL, error text DEFAULT NULL, args jsonb DEFAULT NULL,
    everything boolean DEFAULT false, most bigint DEFAULT NULL, per_second double precision DEFAULT NULL, dry_run boolean DEFAULT false,
    INOUT selected bigint DEFAULT NULL, INOUT done bigint DEFAULT NULL)
    LANGUAGE plpgsql
AS $$
BEGIN
    CALL {schema}.touch_jobs('cancel', '{scheduled,retryable,available,running}', NULL, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, selected, done);
END $$;

-- retry_jobs(...): dead, cancelled and retryable ones are available at once.
CREATE OR REPLACE PROCEDURE {schema}.retry_jobs(
    state text DEFAULT NULL, queue text DEFAULT NULL, kind text DEFAULT NULL, tag text DEFAULT NULL, error text DEFAULT NULL, args jsonb DEFAULT NULL,
    everything boolean DEFAULT false, most bigint DEFAULT NULL, per_second double precision DEFAULT NULL, dry_run boolean DEFAULT false,
    INOUT selected bigint DEFAULT NULL, INOUT done bigint DEFAULT NULL)
    LANGUAGE plpgsql
AS $$
BEGIN
    CALL {schema}.touch_jobs('retry', '{retryable,discarded,cancelled}', NULL, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, selected, done);
END $$;

-- delete_jobs(...): those that wait, are dead or cancelled.
CREATE OR REPLACE PROCEDURE {schema}.delete_jobs(
    state text DEFAULT NULL, queue text DEFAULT NULL, kind text DEFAULT NULL, tag text DEFAULT NULL, error text DEFAULT NULL, args jsonb DEFAULT NULL,
    everything boolean DEFAULT false, most bigint DEFAULT NULL, per_second double precision DEFAULT NULL, dry_run boolean DEFAULT false,
    INOUT selected bigint DEFAULT NULL, INOUT done bigint DEFAULT NULL)
    LANGUAGE plpgsql
AS $$
BEGIN
    CALL {schema}.touch_jobs('delete', '{scheduled,retryable,available,discarded,cancelled}', NULL, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, selected, done);
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
BEGIN
    IF jsonb_typeof(new) IS DISTINCT FROM 'object' OR new = '{}' THEN
        RAISE 'the edit changes nothing; name scheduled_at, queue, priority, max_attempts or args, as in {"priority": 5}' USING ERRCODE = 'WL003';
    END IF;
    SELECT k INTO v_unknown FROM jsonb_object_keys(new) AS k WHERE k NOT IN ('scheduled_at', 'queue', 'priority', 'max_attempts', 'args') LIMIT 1;
    IF FOUND THEN
        RAISE 'a job has no %; an edit sets scheduled_at, queue, priority, max_attempts or args', quote_literal(left(v_unknown, 64)) USING ERRCODE = 'WL003';
    END IF;
    -- No job has this id: it checks the values.
    PERFORM {schema}.edit(0, (new->>'scheduled_at')::timestamptz, new->>'queue', (new->>'priority')::integer, (new->>'max_attempts')::integer, new->'args');
    IF state IN ('discarded', 'cancelled') AND NOT new ? 'scheduled_at' THEN v_states := v_states || state; END IF;
    CALL {schema}.touch_jobs('edit', v_states, new, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, selected, done);
END $$;
