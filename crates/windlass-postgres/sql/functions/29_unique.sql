-- Unique jobs. A key has one row; who finds it there asks the log whether the job that took it last still has it, and takes
-- it over if not. Nothing happens at settle, so jobs without a key cost nothing.
-- Invariants: whoever stores a job under a key wrote the key's row in the same transaction, so of two that race one waits for the
-- other, and a rollback leaves no trace. A row is taken over only as it was when its job was looked up (id, xid), so that a retry,
-- which brings a job back, and an enqueue cannot both succeed.
-- Order of locks: keys in ascending order, first those that are new, then those that are there; then lanes.

-- expired(attributes, at): whether a job with these is not started any more, by a worker that takes it then. No SET, so that it is part of the query that names it.
CREATE OR REPLACE FUNCTION {schema}.expired(p_attributes text, p_at timestamptz) RETURNS boolean
    LANGUAGE sql STABLE
AS $$ SELECT strpos(p_attributes, '"expires_at"') > 0 AND coalesce((p_attributes::jsonb ->> 'expires_at')::timestamptz <= p_at, false) $$;

-- unique_held(id, until_finished): whether a job, wherever it is, keeps the key that it took: until it is finished, or while it
-- waits and was not tried yet; and not once it expired, unless a worker took it before that. Cost: find_job, and a probe.
CREATE OR REPLACE FUNCTION {schema}.unique_held(p_id bigint, p_until_finished boolean) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
DECLARE
    f record;
BEGIN
    SELECT * INTO f FROM {schema}.find_job(p_id);
    IF f.place IS NULL OR f.place = 'dead' OR f.settled_at IS NOT NULL THEN RETURN false; END IF;
    IF f.place = 'waiting' THEN
        RETURN EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.id = p_id AND (p_until_finished OR h.state <> 'retryable' AND h.attempt = 0)
                       AND NOT {schema}.expired(h.attributes, clock_timestamp()));
    END IF;
    RETURN EXISTS (SELECT 1 FROM {schema}.job j WHERE j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = p_id
                   AND (p_until_finished OR f.seq IS NULL AND j.attempt = 0)
                   AND NOT {schema}.expired(j.attributes, coalesce(f.claimed_at, clock_timestamp())));
END $$;

-- window_runs(taken_at, expires): whether a window has not ended. One that begins further ahead than it is long is from before the clock was set back: it could last
-- for years. No SET, so that it is part of the query that names it.
CREATE OR REPLACE FUNCTION {schema}.window_runs(p_taken_at timestamptz, p_expires timestamptz) RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$ SELECT p_expires > clock_timestamp() AND p_taken_at - clock_timestamp() <= p_expires - p_taken_at $$;

-- unique_holders(keys): for each key that has a row: nth of the keys, which job took it last, and whether that still has it.
-- What was not handed out waits, if it is still there: a cancelled one may be gone with its segment. What was is running in an
-- open claim, or came back (another row has it then), or is finished. A job that expired before it was handed out will not start: whoever gets it cancels it. So no claim has to be searched for, unless the claims that may be open, those of all workers since their last heartbeats
-- and of their long jobs, are so many that this costs less.
-- Who reads this holds the rotate lock: see docs/design/postgres-log.md, "One lock for truncation".
-- Cost: a few index probes for each key, and a look at each open claim of the lane if the job was handed out; for a job that was
-- scheduled or came back, unique_held.
CREATE OR REPLACE FUNCTION {schema}.unique_holders(p_keys uuid[])
    RETURNS TABLE (nth bigint, id bigint, xid xid8, held boolean)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
    SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_many bigint := 12 * cardinality(p_keys); -- a search costs as much as a look at so many claims
    v_now  timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH holder AS MATERIALIZED (
        SELECT u.nth, k.* FROM unnest(p_keys) WITH ORDINALITY AS u(key, nth)
        CROSS JOIN LATERAL (SELECT k.* FROM {schema}.unique_key k WHERE k.key = u.key LIMIT 1) AS k
    ), newest AS MATERIALIZED (
        SELECT c.* FROM (SELECT DISTINCT h.lane_id FROM holder h) AS l
        CROSS JOIN LATERAL (
            SELECT c.lane_id, c.from_snapshot, c.to_snapshot, c.end_xid, c.end_id
            FROM {schema}.claim c WHERE c.lane_id = l.lane_id ORDER BY c.seq DESC LIMIT 1) AS c
    ), open AS MATERIALIZED (
        SELECT c.lane_id, c.seq, c.from_snapshot, c.to_snapshot, c.start_xid, c.start_id, c.end_xid, c.end_id, c.claimed_at
        FROM {schema}.open_claims(NULL) o JOIN {schema}.claim c ON c.lane_id = o.lane_id AND c.seq = o.seq
        WHERE NOT c.direct
    ), many AS MATERIALIZED (
        SELECT count(*) = v_many AS claims FROM (
            SELECT 1 FROM {schema}.worker w CROSS JOIN LATERAL (
                (SELECT 1 FROM {schema}.claim k WHERE k.worker_id = w.id AND k.worker_call >= w.open_from LIMIT v_many)
                UNION ALL
                SELECT 1 FROM unnest(w.open_seqs)) AS c
            WHERE w.ended_at IS NULL LIMIT v_many) AS m
    )
    SELECT h.nth, h.id, h.xid, CASE
        WHEN h.expires IS NOT NULL THEN {schema}.window_runs(h.taken_at, h.expires)
        WHEN h.lane_id IS NULL THEN {schema}.unique_held(h.id, h.until_finished)
        WHEN c.lane_id IS NULL OR NOT {schema}.consumed(c.from_snapshot, c.to_snapshot, c.end_xid, c.end_id, h.xid, h.id) THEN
            -- What is stepped over was cancelled, or edited: then the job is elsewhere.
            CASE WHEN (SELECT 1 FROM {schema}.job j WHERE j.lane_id = h.lane_id AND j.xid = h.xid AND j.id = h.id
                       AND NOT {schema}.expired(j.attributes, v_now) LIMIT 1) IS NOT NULL
                      AND (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = h.id LIMIT 1) IS NULL THEN true
                 ELSE {schema}.unique_held(h.id, h.until_finished) END
        WHEN (SELECT 1 FROM {schema}.waiting w WHERE w.id = h.id LIMIT 1) IS NOT NULL
             OR (SELECT 1 FROM {schema}.job j WHERE j.id = h.id AND j.moved LIMIT 1) IS NOT NULL
            THEN {schema}.unique_held(h.id, h.until_finished)
        WHEN NOT h.until_finished THEN false
        WHEN (SELECT m.claims FROM many m) THEN (
            SELECT 1 FROM {schema}.job j CROSS JOIN LATERAL {schema}.claim_of(j.lane_id, j.xid, j.id) k
            WHERE j.lane_id = h.lane_id AND j.xid = h.xid AND j.id = h.id AND k.seq > 0 AND NOT {schema}.expired(j.attributes, k.claimed_at)
              AND (SELECT 1 FROM {schema}.settlement_of(j.lane_id, k.seq, j.id) LIMIT 1) IS NULL LIMIT 1) IS NOT NULL
        ELSE (SELECT 1 FROM open o
              WHERE o.lane_id = h.lane_id AND pg_visible_in_snapshot(h.xid, o.to_snapshot) AND NOT pg_visible_in_snapshot(h.xid, o.from_snapshot)
                AND (o.start_xid IS NULL OR (h.xid, h.id) > (o.start_xid, o.start_id))
                AND (o.end_xid IS NULL OR (h.xid, h.id) <= (o.end_xid, o.end_id))
                AND (SELECT 1 FROM {schema}.settlement_of(o.lane_id, o.seq, h.id) LIMIT 1) IS NULL
                -- One that was cancelled, and whose row was dropped with its segment, is no job of the claim.
                AND (SELECT 1 FROM {schema}.job j WHERE j.lane_id = h.lane_id AND j.xid = h.xid AND j.id = h.id
                     AND NOT {schema}.expired(j.attributes, o.claimed_at) LIMIT 1) IS NOT NULL
              LIMIT 1) IS NOT NULL END
    FROM holder h LEFT JOIN newest c ON c.lane_id = h.lane_id;
END $$;

-- take_unique(keys, ...): takes the keys of jobs that the caller stores in the same transaction; no two of them are the same, and
-- NULL is a job without. windows: microseconds. rules: 0 keep, 1 extend, 2 replace, 3 error. lanes: where in the log the job is about to be written; NULL: elsewhere.
-- ids: of the job to store, or of the one that has the key. fates: 0 store it, 1 kept, 2 extended, 3 kept until replace_unique has
-- looked; then the key's row is locked. A window counts from when the key was had: not from before the wait for somebody else's transaction.
-- Waits for unfinished transactions that took one of the keys. Where the log came here from another cluster and is not in order yet, it is refused where a key has a row: see check_home.
-- Cost: in a bulk 10 us for a new key, 25 us for one that is taken over; see docs/design/unique.md.
CREATE OR REPLACE FUNCTION {schema}.take_unique(
    p_keys uuid[], p_until_finished boolean[], p_windows bigint[], p_rules smallint[], p_lanes integer[],
    OUT ids bigint[], OUT fates smallint[], OUT taken_at timestamptz)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
AS $$
#variable_conflict use_column
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_us   interval := '1 microsecond';
    v_left integer[]; -- places that are not decided yet, by ascending key
    v_keys uuid[];
    v_done boolean[] := array_fill(false, ARRAY[cardinality(p_keys)]);
    v_won  integer;
    v_places integer[]; v_ids bigint[]; v_xids xid8[]; v_acts smallint[]; -- rows to lock: 0 to take over, 1 to extend, 2 to replace
    i      integer;
    r      record;
BEGIN
    PERFORM {schema}.read_committed('enqueue_unique');
    taken_at := v_now;
    fates := array_fill(0::smallint, ARRAY[cardinality(p_keys)]);
    ids := {schema}.take_ids(cardinality(p_keys));
    v_left := ARRAY(SELECT u.place FROM unnest(p_keys) WITH ORDINALITY AS u(key, place) WHERE u.key IS NOT NULL ORDER BY u.key);
    FOR round IN 1..100 LOOP
        EXIT WHEN v_left = '{}';
        INSERT INTO {schema}.unique_key (key, id, lane_id, until_finished, expires, check_at)
            SELECT p_keys[u.place], ids[u.place], p_lanes[u.place], p_until_finished[u.place], v_now + p_windows[u.place] * v_us,
                   v_now + coalesce(p_windows[u.place] * v_us, interval '1 minute')
            FROM unnest(v_left) WITH ORDINALITY AS u(place, n) ORDER BY u.n
            ON CONFLICT (key) DO NOTHING;
        GET DIAGNOSTICS v_won = ROW_COUNT;
        IF v_won > 0 AND clock_timestamp() > v_now + (1 + v_won / 20) * interval '1 ms' AND array_remove(p_windows, NULL) <> '{}' THEN
            -- One of them was waited for, in a transaction that rolled back: the windows begin now.
            v_now := clock_timestamp();
            UPDATE {schema}.unique_key k SET expires = v_now + p_windows[u.place] * v_us, taken_at = v_now
                FROM unnest(v_left) AS u(place) WHERE k.key = p_keys[u.place] AND k.id = ids[u.place] AND p_windows[u.place] IS NOT NULL;
        END IF;
        EXIT WHEN v_won = cardinality(v_left);
        v_keys := ARRAY(SELECT p_keys[u.place] FROM unnest(v_left) WITH ORDINALITY AS u(place, n) ORDER BY u.n);
        v_places := '{}'; v_ids := '{}'; v_xids := '{}'; v_acts := '{}';
        PERFORM {schema}.check_home(); -- here for what it remembers, which the block's end undoes; there under the lock
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
            PERFORM {schema}.check_home();
            -- A new statement: it sees what the insert waited for.
            FOR r IN SELECT * FROM {schema}.unique_holders(v_keys) LOOP
                i := v_left[r.nth];
                IF r.id = ids[i] THEN
                    v_done[i] := true;
                ELSIF r.held AND p_rules[i] = 0 THEN
                    ids[i] := r.id;
                    fates[i] := 1;
                    v_done[i] := true;
                ELSIF r.held AND p_rules[i] = 3 THEN
                    RAISE 'job % has this unique key', r.id USING ERRCODE = 'WL007', DETAIL = (i - 1) || ' ' || r.id;
                ELSE
                    v_places := v_places || i;
                    v_ids := v_ids || r.id;
                    v_xids := v_xids || r.xid;
                    v_acts := v_acts || CASE WHEN r.held THEN p_rules[i] ELSE 0::smallint END;
                END IF;
            END LOOP;
            RAISE 'the log was read' USING ERRCODE = 'WL099';
        EXCEPTION WHEN SQLSTATE 'WL099' THEN
            NULL; -- what was read stays, the rotate lock goes
        END;
        IF v_places <> '{}' THEN
            FOR r IN
                WITH locked AS MATERIALIZED (
                    SELECT k.key, k.id, v.place, v.act, k.expires, k.id = v.id AND k.xid = v.xid AS unchanged
                    FROM unnest(v_places, v_ids, v_xids, v_acts) AS v(place, id, xid, act)
                    JOIN {schema}.unique_key k ON k.key = p_keys[v.place]
                    ORDER BY k.key FOR UPDATE OF k
                ), taken AS (
                    UPDATE {schema}.unique_key k
                    SET id = ids[l.place], xid = pg_current_xact_id(), lane_id = p_lanes[l.place], until_finished = p_until_finished[l.place],
                        expires = clock_timestamp() + p_windows[l.place] * v_us, taken_at = clock_timestamp()
                    FROM locked l WHERE k.key = l.key AND l.act = 0 AND l.unchanged
                ), extended AS (
                    UPDATE {schema}.unique_key k
                    SET expires = greatest(k.expires, clock_timestamp() + p_windows[l.place] * v_us), taken_at = clock_timestamp()
                    FROM locked l WHERE k.key = l.key AND l.act = 1 AND l.expires IS NOT NULL AND l.unchanged)
                SELECT * FROM locked WHERE unchanged
            LOOP
                v_done[r.place] := true;
                CONTINUE WHEN r.act = 0;
                ids[r.place] := r.id;
                fates[r.place] := CASE WHEN r.act = 2 THEN 3 WHEN r.expires IS NULL THEN 1 ELSE 2 END;
            END LOOP;
        END IF;
        -- Left are those whose row was taken over between the look and the lock, to be looked at once more, now that nobody can change
        -- them (waiting for another lock now would be a deadlock in waiting); or that were forgotten.
        v_left := ARRAY(SELECT u.place FROM unnest(v_left) WITH ORDINALITY AS u(place, n) WHERE NOT v_done[u.place] ORDER BY u.n);
    END LOOP;
    IF v_left <> '{}' AND v_won < cardinality(v_left) THEN
        RAISE 'unique keys are taken over as often as they are looked up; try again' USING ERRCODE = '40001';
    END IF;
END $$;
