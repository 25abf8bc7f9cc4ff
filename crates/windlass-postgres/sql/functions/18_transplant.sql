-- The move to another cluster: pg_dump, logical replication, blue/green. The cursor arithmetic is void then.

-- system_identifier(): of this cluster; NULL where it may not be read.
CREATE OR REPLACE FUNCTION {schema}.system_identifier() RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT c.system_identifier FROM pg_control_system() c);
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;
END $$;

-- Not inside the table's own file: it must be the migration's top-level transaction that writes the row.
INSERT INTO {schema}.home (system) SELECT {schema}.system_identifier() WHERE NOT EXISTS (SELECT 1 FROM {schema}.home);

-- home_anew(): the row that comes takes the place of the one that is there: data of a dump that are restored into a schema that was migrated here already
-- say by it that the log moved. Without it that row would be refused, and the jobs would stand where no claim of this cluster looks.
CREATE OR REPLACE FUNCTION {schema}.home_anew() RETURNS trigger
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM {schema}.home;
    -- Also in the cluster of the dump: the ring is the one of here, in which segments may have another order.
    IF FOUND THEN NEW.system := NULL; END IF;
    RETURN NEW;
END $$;

-- It fires always, also where a restore says that it is a replica. One that switches triggers off (--disable-triggers) switches them on as ordinary ones when it is done: that this
-- one is not what it was tells home_state the same. Schemas of before have another trigger, which does no harm beside it.
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'home_brought' AND tgrelid = '{schema}.home'::regclass) THEN
        CREATE TRIGGER home_brought BEFORE INSERT ON {schema}.home FOR EACH ROW EXECUTE FUNCTION {schema}.home_anew();
        ALTER TABLE {schema}.home ENABLE ALWAYS TRIGGER home_brought;
    END IF;
END $$;

-- is_ahead(): whether rows of the log name a transaction that is later than the one that wrote them here: they came from another cluster, which was ahead. Clusters that were
-- made from one data folder have one identifier.
-- Cost: a probe for each lane, and a few.
CREATE OR REPLACE FUNCTION {schema}.is_ahead() RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    v_now bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
BEGIN
    RETURN coalesce((
        SELECT bool_or(n.xid::text::bigint > v_now + ((n.writer::text::bigint - v_now + 2147483648) & 4294967295) - 2147483648) FROM ( -- it may be this transaction, which is beyond
            (SELECT s.event_xid AS xid, s.xmin AS writer FROM {schema}.settlement s WHERE s.event_xid IS NOT NULL ORDER BY s.event_xid DESC LIMIT 1)
            UNION ALL
            (SELECT k.event_pos, k.xmin FROM {schema}.claim k WHERE k.event_pos IS NOT NULL AND k.event_late IS NULL ORDER BY k.event_pos DESC LIMIT 1)
            UNION ALL
            (SELECT e.event_xid, e.xmin FROM {schema}.event e ORDER BY e.event_pos DESC, e.event_n DESC LIMIT 1)
            UNION ALL
            SELECT j.xid, j.xmin FROM {schema}.lane l CROSS JOIN LATERAL (
                SELECT j.xid, j.xmin FROM {schema}.job j WHERE j.lane_id = l.id AND j.xid < '{direct}' ORDER BY j.xid DESC LIMIT 1) AS j) AS n), false);
END $$;

-- came_along(): whether the oldest lanes were written by the transaction that wrote the row of table home. Only a restore in one transaction does that.
-- Cost: two probes.
CREATE OR REPLACE FUNCTION {schema}.came_along() RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM {schema}.home h WHERE h.xmin IN (
        (SELECT l.xmin FROM {schema}.lane l WHERE l.id > 0 ORDER BY l.id LIMIT 1),
        (SELECT l.xmin FROM {schema}.lane l WHERE l.id < 0 ORDER BY l.id DESC LIMIT 1)));
END $$;

-- home_state(): 'home'; 'upgraded': the same, in a cluster of another identifier, which pg_upgrade gives: the row has to note that; 'rewritten': somebody wrote the row of table home anew
-- (pg_repack does, and who restores a dump into the cluster that it is of), but positions in the log are true; 'moved': the log came here from another cluster, or somebody wrote its
-- rows with triggers switched off.
-- A restore may have the transaction id that the row notes: two clusters that do the same from their first day on count alike. So that is believed only where the cluster is the
-- one that the row names and no other rows were written with it, or where nothing is ahead.
-- Cost: one row, one of the catalog, the cluster's control file and came_along; where that is in doubt, or the row was written anew, also is_ahead.
CREATE OR REPLACE FUNCTION {schema}.home_state() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN t.tgenabled IS DISTINCT FROM 'A' THEN 'moved'
                WHEN h.xmin = h.xid::xid THEN
                    CASE WHEN h.system IS NOT DISTINCT FROM {schema}.system_identifier() AND NOT {schema}.came_along() THEN 'home'
                         WHEN {schema}.is_ahead() THEN 'moved'
                         WHEN h.system IS NOT DISTINCT FROM {schema}.system_identifier() THEN 'home'
                         ELSE 'upgraded' END
                WHEN h.system = {schema}.system_identifier() THEN CASE WHEN {schema}.is_ahead() THEN 'moved' ELSE 'rewritten' END
                ELSE 'moved' END
    FROM (SELECT 1) AS one LEFT JOIN {schema}.home h ON true
    LEFT JOIN pg_trigger t ON t.tgrelid = '{schema}.home'::regclass AND t.tgname = 'home_brought'
$$;

-- check_home(): refuses (SQLSTATE 55P03, so that the caller asks again) what looks for where a job stands in the log, as long as that came here from another cluster and is not
-- in order: what this cluster wrote looks like history to the claims of the other. Under the rotate lock, so that it stays so.
-- A session belongs to one cluster, in which one transaction has the id that the row of table home notes, and that transaction was a migration's, note_home's or a restore's for good. So home_state is asked once
-- in a session for each such id, and setting windlass.home remembers for which table and id it was well. A row that was written anew, by a restore, logical replication or pg_repack, has an xmin that is not its id, or,
-- by chance, another id than is remembered: then home_state says which it was, by the identifier, the lanes and what is ahead. What a session sets goes with its transaction where that is rolled back.
-- Cost: one row, 5 us on an idle machine (PostgreSQL 15); the first time in a session also home_state, which was 18 us each time there, and 157 on a busy one, most of it for the cluster's control file.
CREATE OR REPLACE FUNCTION {schema}.check_home() RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_noted text := (SELECT h.tableoid || ' ' || h.xid FROM {schema}.home h WHERE h.xmin = h.xid::xid);
BEGIN
    IF v_noted = current_setting('windlass.home', true) THEN RETURN; END IF;
    IF {schema}.home_state() = 'moved' THEN
        RAISE 'the database was moved here from another cluster and is not in order yet; start a worker or run `windlass migrate`' USING ERRCODE = '55P03';
    END IF;
    PERFORM set_config('windlass.home', v_noted, false) WHERE v_noted IS NOT NULL;
END $$;

-- note_home(): this cluster is the log's home from now on. A row of table migration is written along, as the migration does it, so that end_restored tells a restore from table home alone. Not
-- in a subtransaction, which has another id.
CREATE OR REPLACE FUNCTION {schema}.note_home() RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE {schema}.home SET xid = pg_current_xact_id(), system = {schema}.system_identifier();
    IF NOT EXISTS (SELECT 1 FROM {schema}.home h WHERE h.xmin = h.xid::xid) THEN
        RAISE 'rehome is not for a savepoint, nor for a block that catches errors' USING ERRCODE = 'WL006';
    END IF;
    UPDATE {schema}.migration SET applied_at = applied_at WHERE version = (SELECT max(version) FROM {schema}.migration);
END $$;

-- end_restored(): where all was written anew and not table home alone, as by a dump that was restored into the cluster that it is of, its workers end: one that still runs knows of settlements
-- that the dump does not, and would leave out of its heartbeats the claims that are open again. Returns how many jobs came back; NULL: what was written beside home (by the migration, or by note_home) stands as it was.
CREATE OR REPLACE FUNCTION {schema}.end_restored() RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM {schema}.migration m, {schema}.home h WHERE m.xmin = h.xid::xid) THEN RETURN NULL; END IF;
    PERFORM {schema}.advance_sequences();
    RETURN (SELECT coalesce(sum(e.rescued), 0) FROM {schema}.worker w CROSS JOIN LATERAL {schema}.end_worker(w.id, false) e WHERE w.ended_at IS NULL);
END $$;

-- rehome(): after a move into another cluster: every unfinished job becomes available anew, under this
-- cluster's transaction ids; the history of completed jobs is dropped and all workers must register again.
-- Returns how many jobs were kept. Does nothing (NULL) where nothing was moved, but that it notes the cluster's identifier after pg_upgrade. After a restore into the same cluster: see end_restored.
-- Invariant: no job is lost and no two have one id. Rows that this cluster's own transactions wrote have an xid from after the
-- log came here up to their xmin (a subtransaction's is later than xid); nobody has worked on them, because the
-- fence refuses. Rows that were copied here may have such an xid by chance, so transactions that copied are left out: see copied_by.
-- Logical replication carries no sequences, so own rows may carry the ids of older jobs: such a job gets another id.
-- Who reads the log locks its tables in another order. So it waits for a short time, gives back what it has, and tries again.
CREATE OR REPLACE FUNCTION {schema}.rehome() RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET lock_timeout = 0
AS $$
DECLARE
    v_until timestamptz := clock_timestamp() + interval '5 minutes';
    v_count bigint;
    v_more  bigint;
    v_own   bigint;
    v_since bigint;
    v_now   bigint;
BEGIN
    IF {schema}.home_state() = 'home' THEN RETURN NULL; END IF; -- without the locks
    IF {schema}.home_state() = 'upgraded' THEN
        PERFORM {schema}.note_home();
        RETURN NULL;
    END IF;
    PERFORM set_config('lock_timeout', {schema}.short_wait(), true);
    LOOP
        BEGIN
            PERFORM pg_advisory_xact_lock(hashtext({name} || '.rotate'), 0);
            LOCK TABLE {schema}.job, {schema}.claim, {schema}.settlement, {schema}.result, {schema}.event IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            IF clock_timestamp() > v_until THEN RAISE; END IF;
            IF {schema}.home_state() IN ('home', 'upgraded') THEN RETURN NULL; END IF;
        END;
    END LOOP;
    IF {schema}.home_state() IN ('home', 'upgraded') THEN RETURN NULL; END IF;
    IF {schema}.home_state() = 'rewritten' THEN
        v_count := {schema}.end_restored();
        PERFORM {schema}.note_home();
        RETURN v_count;
    END IF;
    -- Only now, beyond all who wrote while this waited for its locks.
    v_now := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    -- When the row of table home came here, as a full transaction id: the newest one that ends like its xmin. Where it was refused, when its trigger was switched on again.
    SELECT max(v_now - ((v_now - x.writer::text::bigint) & 4294967295)) INTO v_since FROM (
        SELECT h.xmin FROM {schema}.home h
        UNION ALL
        SELECT t.xmin FROM pg_trigger t WHERE t.tgrelid = '{schema}.home'::regclass AND t.tgname = 'home_brought' AND t.tgenabled <> 'A') AS x(writer);
    v_since := coalesce(v_since, 0);
    PERFORM {schema}.advance_sequences();

    -- No temporary table: the right to those is often taken from everybody.
    CREATE UNLOGGED TABLE {schema}.rehomed AS
        WITH stood AS MATERIALIZED (
            SELECT j.lane_id, j.xid AS at, j.id, j.xid::text::bigint AS xid,
                   v_now - ((v_now - j.xmin::text::bigint) & 4294967295) AS writer
            FROM {schema}.job j
        ), copied AS MATERIALIZED (
            SELECT s.writer FROM stood s GROUP BY s.writer
                HAVING min(s.xid) <> max(s.xid) OR min(s.xid) <= v_since OR max(s.xid) > s.writer
            UNION SELECT v_now - ((v_now - c.writer::text::bigint) & 4294967295) FROM {schema}.copied_by() AS c(writer)
            UNION SELECT a.xid::text::bigint FROM {schema}.applied a
        )
        SELECT j.* FROM stood s JOIN {schema}.job j ON j.lane_id = s.lane_id AND j.xid = s.at AND j.id = s.id
        WHERE s.xid > v_since AND s.xid <= s.writer
          AND s.writer NOT IN (SELECT writer FROM copied) AND s.xid NOT IN (SELECT writer FROM copied);
    -- Claims of before reach over them; claim_jobs, which counts, would take them for jobs of theirs.
    DELETE FROM {schema}.job j USING {schema}.rehomed o WHERE j.lane_id = o.lane_id AND j.xid = o.xid AND j.id = o.id;
    -- Cancelled here since the move; where an older job has the id too, it is that one.
    DELETE FROM {schema}.rehomed o USING {schema}.cancelled_in_log s
        WHERE s.job_id = o.id AND s.lane_id = o.lane_id
          AND NOT EXISTS (SELECT 1 FROM {schema}.job j WHERE j.lane_id = o.lane_id AND j.id = o.id AND j.xid <> o.xid);
    INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, moved, state, kind, args, attributes)
        SELECT j.id, clock_timestamp(), j.enqueued_at, j.lane_id, j.attempt, j.max_attempts, j.crash_count, true, 'scheduled', j.kind, j.args, j.attributes
        FROM {schema}.cursor k JOIN {schema}.job j ON j.lane_id = k.lane_id
        WHERE j.xid < '{direct}'
          AND NOT {schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, j.id)
          AND NOT EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = j.id AND s.lane_id = j.lane_id)
        ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, moved, state, kind, args, attributes)
        SELECT j.id, clock_timestamp(), j.enqueued_at, j.lane_id, j.attempt, j.max_attempts, j.crash_count, true, 'scheduled', j.kind, j.args, j.attributes
        FROM {schema}.open_claims(NULL) c CROSS JOIN LATERAL {schema}.unsettled_jobs(c.lane_id, c.seq) j
        ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_more = ROW_COUNT;
    ALTER TABLE {schema}.rehomed ADD COLUMN was bigint;
    UPDATE {schema}.rehomed SET was = id;
    UPDATE {schema}.rehomed o SET id = nextval('{schema}.job_id_seq')
        WHERE EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.id = o.id) OR EXISTS (SELECT 1 FROM {schema}.dead d WHERE d.id = o.id);
    INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, moved, state, kind, args, attributes)
        SELECT id, clock_timestamp(), enqueued_at, lane_id, attempt, max_attempts, crash_count, true, 'scheduled', kind, args, attributes
        FROM {schema}.rehomed;
    GET DIAGNOSTICS v_own = ROW_COUNT;
    UPDATE {schema}.unique_key k SET id = o.id FROM {schema}.rehomed o WHERE k.id = o.was AND k.xid = o.xid AND o.id <> o.was;
    DROP TABLE {schema}.rehomed;
    UPDATE {schema}.unique_key k SET lane_id = NULL WHERE k.lane_id IS NOT NULL; -- positions in the log
    UPDATE {schema}.worker SET ended_at = clock_timestamp() WHERE ended_at IS NULL;
    DELETE FROM {schema}.slot;
    PERFORM {schema}.note_ended(h.queue, h.keys, h.times) FROM ( -- what was held until now counts on for rates
        SELECT l.queue, array_agg(h.key) AS keys, array_agg(clock_timestamp()) AS times FROM {schema}.key_held h JOIN {schema}.lane l ON l.id = h.lane_id GROUP BY l.queue) AS h;
    TRUNCATE {schema}.job, {schema}.claim, {schema}.settlement, {schema}.result, {schema}.event, {schema}.cancelled_in_log, {schema}.moved_claim, {schema}.key_held, {schema}.key_lookahead, {schema}.came_back, {schema}.no_handler;
    UPDATE {schema}.waiting SET state = 'no_handler' WHERE state = 'no_handler'; -- since this transaction: its trigger says so
    IF to_regclass('{schema}.job_0_place') IS NOT NULL THEN PERFORM {schema}.prepare_subscriber(false); END IF;
    -- What is over is over: no settlement tells claims of it any more.
    UPDATE {schema}.key_room r SET held = 0, begun = ARRAY(SELECT p.id FROM {schema}.keys_pending(r.begun, r.queue) p WHERE p.key = r.key), ended = coalesce((SELECT sum(e.jobs) FROM {schema}.key_ended e WHERE e.queue = r.queue AND e.key = r.key), 0);
    DELETE FROM {schema}.key_room r WHERE r.begun = '{}' AND r.ended = 0;
    UPDATE {schema}.key_lane SET folded = pg_current_snapshot();
    -- As turn_again: not behind the keys of its lane that went on meanwhile, where no claim looks any more.
    UPDATE {schema}.key_turn t SET tag = greatest(({schema}.key_lane_of(t.lane_id)).tag, t.finish), n = nextval('{schema}.key_turn_seq'), blocked = false, due_at = NULL WHERE t.blocked;
    UPDATE {schema}.housekeeping SET segment = NULL;
    UPDATE {schema}.counter_fold SET since = pg_current_snapshot(), until = NULL, hasty = false; -- what was counted stays
    DELETE FROM {schema}.event_log;
    INSERT INTO {schema}.event_log DEFAULT VALUES;
    DELETE FROM {schema}.home;
    INSERT INTO {schema}.home DEFAULT VALUES;
    ALTER TABLE {schema}.home ENABLE ALWAYS TRIGGER home_brought;
    PERFORM {schema}.note_home();
    RETURN v_count + v_more + v_own;
END $$;

-- copied_by(): transactions that brought rows of the log here: those that wrote claims and settlements, which nobody else could
-- before rehome. Those that wrote jobs of several transactions, or of ones that cannot be this cluster's, rehome finds itself.
CREATE OR REPLACE FUNCTION {schema}.copied_by() RETURNS SETOF xid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT xmin FROM {schema}.claim GROUP BY 1 UNION SELECT xmin FROM {schema}.settlement GROUP BY 1
$$;

-- far_beyond(id): a million later, as far as such ids reach.
CREATE OR REPLACE FUNCTION {schema}.far_beyond(p_id bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE AS $$ SELECT greatest(p_id, 1) + CASE WHEN p_id > 2000000000 THEN 0 ELSE 1000000 END $$;

-- advance_sequences(): beyond every id and number that is stored, because logical replication leaves sequences where they were. Of jobs also those that only
-- other tables still name: with the id of one another job would be taken for it. What event_seq gave is compared only among rows that rehome drops. Blocks of
-- job ids begin where job_id has its entries. Workers and lanes begin a million later: processes that run on may have ids that were given after the dump was taken, and one that was given again would
-- be two workers' fencing token. On a timeline that the dump does not know its numbers begin before that, for the same reason.
-- Cost: a look through job and claim, through enqueue_key and key_room, whose ids stand in arrays, and through unique_key, which has no index by id (3 * 10^6
-- keys: 0.5 s); rehome reads most of these once more. A probe or a small table for everything else.
CREATE OR REPLACE FUNCTION {schema}.advance_sequences() RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {schema}.begin_timeline();
    PERFORM setval('{schema}.job_id_seq', (s.top + 15) / 16 * 16 + 1) FROM (
        SELECT greatest((SELECT last_value FROM {schema}.job_id_seq), (SELECT max(id) FROM {schema}.job),
                        (SELECT max(id) FROM {schema}.waiting), (SELECT max(id) FROM {schema}.dead),
                        (SELECT max(job_id) FROM {schema}.attempt_error),
                        (SELECT max(job_id) FROM {schema}.job_report),
                        (SELECT max(r) FROM {schema}.enqueue_key, unnest(ranges) AS r),
                        (SELECT max(id) FROM {schema}.unique_key), (SELECT max(last_job) FROM {schema}.schedule),
                        (SELECT max(job_id) FROM {schema}.cancel_request), (SELECT max(job_id) FROM {schema}.key_signal),
                        (SELECT max(b) FROM {schema}.key_room, unnest(begun) AS b)) AS top) AS s;
    PERFORM setval(pg_get_serial_sequence('{schema}.worker', 'id'),
                   (SELECT {schema}.far_beyond(max(i)) FROM (SELECT max(id) AS i FROM {schema}.worker UNION ALL SELECT max(worker_id) FROM {schema}.claim
                    UNION ALL SELECT max(worker_id) FROM {schema}.attempt_error UNION ALL SELECT max(worker_id) FROM {schema}.job_report UNION ALL SELECT nextval(pg_get_serial_sequence('{schema}.worker', 'id'))) AS x));
    PERFORM setval(pg_get_serial_sequence('{schema}.lane', 'id'),
                   (SELECT {schema}.far_beyond(max(i)) FROM (SELECT max(id) AS i FROM {schema}.lane
                    UNION ALL SELECT nextval(pg_get_serial_sequence('{schema}.lane', 'id'))) AS x));
    PERFORM setval('{schema}.keyed_lane_seq', (SELECT greatest(1 - min(l.id), nextval('{schema}.keyed_lane_seq')) FROM {schema}.lane l));
    PERFORM setval('{schema}.key_turn_seq', (SELECT greatest(max(i), nextval('{schema}.key_turn_seq')) FROM (
        SELECT max(n) AS i FROM {schema}.key_turn UNION ALL SELECT max(n) FROM {schema}.key_lane UNION ALL SELECT max(n) FROM {schema}.key_room
        UNION ALL SELECT max(n) FROM {schema}.key_looked UNION ALL SELECT max(n) FROM {schema}.key_signal
        UNION ALL SELECT max(n) FROM {schema}.key_lookahead) AS x));
    PERFORM setval('{schema}.schedule_version', (SELECT greatest(max(s.version), nextval('{schema}.schedule_version')) FROM {schema}.schedule s));
    PERFORM setval(pg_get_serial_sequence('{schema}.audit_entry', 'id'),
                   (SELECT greatest(max(e.id), nextval(pg_get_serial_sequence('{schema}.audit_entry', 'id'))) FROM {schema}.audit_entry e));
END $$;
