-- The append-only log and the ordinary tables beside it. Design: docs/design/postgres-log.md
--
-- Hot, append-only, removed only by TRUNCATE of a whole segment: job, claim, settlement, result.
-- Invariant: no UPDATE on these four, ever, and no DELETE but of what moves out of a segment that is truncated
-- next. Which segment a row sits in never matters for correctness: readers read the parent. Autovacuum is off
-- for them: what dies there goes with TRUNCATE (anti-wraparound vacuum still runs).

-- One row per version of the tables. compatible_with: the oldest program, by the newest version that it knows,
-- that may work on this version.
CREATE TABLE {schema}.migration (
    version         integer PRIMARY KEY,
    compatible_with integer NOT NULL,
    applied_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Where the log is at home: one row, whose own transaction id is noted in it. A dump or logical replication writes the
-- row anew, under another transaction, and so tells that the log was moved to where its positions mean nothing.
-- system: the cluster's identifier where it may be read, so that a table that was only rewritten is told from one that moved.
CREATE TABLE {schema}.home (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    xid    xid8 NOT NULL DEFAULT pg_current_xact_id(),
    system bigint
);

-- Policy, for all workers alike: one row, changed by configure.
CREATE TABLE {schema}.setting (
    one            boolean PRIMARY KEY DEFAULT true CHECK (one),
    retention      interval NOT NULL DEFAULT '1 day',    -- of completed jobs, counted from when their segment was closed
    dead_retention interval NOT NULL DEFAULT '30 days',  -- of cancelled and discarded jobs
    segment_bytes  bigint NOT NULL DEFAULT 1073741824,   -- the current segment is closed at this size
    max_crashes    smallint NOT NULL DEFAULT 5           -- a job that so many dying workers held is discarded
);
INSERT INTO {schema}.setting DEFAULT VALUES;

-- Settings of queues. A queue exists once it has a row here or a lane.
CREATE TABLE {schema}.queue (
    name       text PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9_.:/-]{1,128}$'),
    paused_at  timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A lane is one queue at one priority: the unit of ordering, of the cursor and of the claim lock.
-- Not unique on purpose: a unique index would make the first enqueue to a queue wait for every open
-- transaction that did the same. Who cannot see a lane makes another; claims read them all.
CREATE TABLE {schema}.lane (
    id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue    text NOT NULL CHECK (queue ~ '^[A-Za-z0-9_.:/-]{1,128}$'),
    priority smallint NOT NULL,
    idle_since  timestamptz, -- since when housekeeping finds no job of it; see forget_lanes
    retired_xid xid8         -- every transaction below this may still write to it
);
CREATE INDEX lane_queue ON {schema}.lane (queue, priority, id);

-- The ring of segments: one row, which names the segment that is written now, and when each was closed.
CREATE TABLE {schema}.ring (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    segment   smallint NOT NULL DEFAULT 0,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz[] NOT NULL DEFAULT array_fill(now(), ARRAY[4])
);
INSERT INTO {schema}.ring DEFAULT VALUES;

-- What housekeeping has done already: the segment that is being emptied and up to which of its jobs (lane_id
-- NULL: all); how many pages of the segment that is written the id index covers; when lanes were last looked
-- at. Not in ring, which every claim reads: this is updated often.
CREATE TABLE {schema}.housekeeping (
    one              boolean PRIMARY KEY DEFAULT true CHECK (one),
    segment          smallint,
    lane_id          integer,
    xid              xid8,
    id               bigint,
    summarized       bigint NOT NULL DEFAULT 0,
    lanes_checked_at timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO {schema}.housekeeping DEFAULT VALUES;

-- Claims that moved out of the segment that they were written to, until they go with another.
CREATE TABLE {schema}.moved_claim (
    lane_id integer NOT NULL,
    seq     bigint NOT NULL,
    PRIMARY KEY (lane_id, seq)
);

-- Job ids come in blocks: each nextval takes 16, of which a batch uses all and a single job the first. Taking an
-- id for each row was 15 % of a bulk enqueue. Programs read the size of a block where they take one, so it may change.
CREATE SEQUENCE {schema}.job_id_seq INCREMENT BY 16;

-- One row per job and per time that it came back (retry, rescue): same id, new xid.
-- xid is the top-level transaction that made the row available: the axis that the cursor moves on.
-- args is json, not jsonb: kept byte for byte, parsed only by handlers, 25 % less work in and out.
-- attributes is empty or a JSON object with what only some jobs have: key, meta, tracked. Empty text takes one
-- byte; a nullable column would make every row 8 bytes longer, for the bitmap of NULLs.
CREATE TABLE {schema}.job (
    xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id           bigint NOT NULL DEFAULT nextval('{schema}.job_id_seq'),
    enqueued_at  timestamptz NOT NULL DEFAULT now(),
    lane_id      integer NOT NULL,
    segment      smallint NOT NULL,
    attempt      smallint NOT NULL DEFAULT 0,      -- attempts used up
    max_attempts smallint NOT NULL DEFAULT 20,
    crash_count  smallint NOT NULL DEFAULT 0,
    moved        boolean NOT NULL DEFAULT false,   -- written for a job that came back or was copied, not by its enqueue
    kind         text NOT NULL,
    args         json NOT NULL,
    attributes   text NOT NULL DEFAULT ''
) PARTITION BY LIST (segment);
CREATE INDEX job_lane ON {schema}.job (lane_id, xid, id);
-- A job by its id. Ids ascend along the log but for the rows of jobs that came back: a few per cent of those would
-- widen every range of the BRIN index to nearly all ids, so they have an index of their own.
CREATE INDEX job_id ON {schema}.job USING brin (id) WITH (pages_per_range = 64) WHERE NOT moved;
CREATE INDEX job_moved ON {schema}.job (id) WHERE moved;

-- A claim is the lease and the cursor: the newest row of a lane says what has been handed out.
--   rows of the claim: visible in to_snapshot, not in from_snapshot, (xid, id) after start, up to end
--   handed out so far: visible in from_snapshot, or visible in to_snapshot and (xid, id) up to end
-- A NULL start is the beginning, a NULL end the end of that difference. A direct claim leaves the cursor
-- where it was; its rows carry xid {direct} + seq, which no snapshot ever reaches and no cursor hands out.
-- worker_call: which of its worker's calls made it, as the worker counts them (see worker.open_from). No default,
-- because a copy without it would be invisible to rescue.
CREATE TABLE {schema}.claim (
    seq           bigint NOT NULL,
    start_xid     xid8,
    start_id      bigint,
    end_xid       xid8,
    end_id        bigint,
    worker_call   bigint NOT NULL,
    claimed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    lane_id       integer NOT NULL,
    token         integer NOT NULL,
    worker_id     integer NOT NULL,
    job_count     integer NOT NULL,
    segment       smallint NOT NULL,
    from_snapshot pg_snapshot NOT NULL,
    to_snapshot   pg_snapshot NOT NULL,
    direct        boolean NOT NULL DEFAULT false
) PARTITION BY LIST (segment);
CREATE UNIQUE INDEX claim_lane ON {schema}.claim (lane_id, seq, segment);
CREATE INDEX claim_worker ON {schema}.claim (worker_id, worker_call);

-- What became of jobs of a claim: those of its jobs whose ids lie from low_id to high_id; NULL: every job of the
-- claim that no other settlement names. One row for one range, so that an index finds what became of a job.
-- Ranges of several ids (low_id < high_id) of one claim never overlap. A row of one id may lie within one and
-- stands above it: complete_in writes such rows while others are not committed yet.
-- job_count: how many jobs; when several ranges were settled as one, the first has the count and the others 0.
-- completed = false: the jobs went elsewhere (waiting, dead, or back into the log).
CREATE TABLE {schema}.settlement (
    seq        bigint NOT NULL,
    settled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    low_id     bigint,
    high_id    bigint,
    lane_id    integer NOT NULL,
    worker_id  integer NOT NULL,
    job_count  integer NOT NULL,
    segment    smallint NOT NULL,
    completed  boolean NOT NULL
) PARTITION BY LIST (segment);
CREATE INDEX settlement_claim ON {schema}.settlement (lane_id, seq, high_id);
CREATE INDEX settlement_wide ON {schema}.settlement (lane_id, seq, high_id) WHERE low_id < high_id;

-- What completed jobs returned, those that did.
CREATE TABLE {schema}.result (
    seq     bigint NOT NULL,
    job_id  bigint NOT NULL,
    lane_id integer NOT NULL,
    segment smallint NOT NULL,
    result  json NOT NULL
) PARTITION BY LIST (segment);
CREATE INDEX result_job ON {schema}.result (lane_id, seq, job_id);

-- The leaves of the ring. Each has a constant segment default, so that a writer can COPY straight in.
DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['job', 'claim', 'settlement', 'result'] LOOP
        FOR v_segment IN 0..3 LOOP
            EXECUTE format(
                'CREATE TABLE {schema}.%I PARTITION OF {schema}.%I (segment DEFAULT %s) FOR VALUES IN (%s) '
                'WITH (autovacuum_enabled = off)', v_table || '_' || v_segment, v_table, v_segment, v_segment);
        END LOOP;
    END LOOP;
END $$;

-- Jobs that wait for something and so pay for a row of their own.
-- no_handler: the worker that claimed it did not know its kind.
CREATE TABLE {schema}.waiting (
    id           bigint PRIMARY KEY,
    available_at timestamptz NOT NULL,
    enqueued_at  timestamptz NOT NULL DEFAULT now(),
    lane_id      integer NOT NULL,
    attempt      smallint NOT NULL DEFAULT 0,
    max_attempts smallint NOT NULL,
    crash_count  smallint NOT NULL DEFAULT 0,
    state        text NOT NULL DEFAULT 'scheduled' CHECK (state IN ('scheduled', 'retryable', 'no_handler')),
    kind         text NOT NULL,
    args         json NOT NULL,
    attributes   text NOT NULL DEFAULT ''
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX waiting_due ON {schema}.waiting (available_at, id) WHERE state <> 'no_handler';
CREATE INDEX waiting_no_handler ON {schema}.waiting (lane_id, kind, id) WHERE state = 'no_handler';
CREATE INDEX waiting_lane ON {schema}.waiting (lane_id, state, available_at, id);

-- Cancelled and discarded jobs, readable and retryable until dead_retention.
CREATE TABLE {schema}.dead (
    id           bigint PRIMARY KEY,
    finished_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    enqueued_at  timestamptz NOT NULL,
    lane_id      integer NOT NULL,
    attempt      smallint NOT NULL,
    max_attempts smallint NOT NULL,
    crash_count  smallint NOT NULL,
    state        text NOT NULL CHECK (state IN ('cancelled', 'discarded')),
    reason       text,
    kind         text NOT NULL,
    args         json NOT NULL,
    attributes   text NOT NULL DEFAULT ''
);
CREATE INDEX dead_finished ON {schema}.dead (finished_at);
CREATE INDEX dead_lane ON {schema}.dead (lane_id, state, finished_at, id);

-- Cancelled jobs that still stand unclaimed in the log: the next claim steps over them and removes the
-- entry. Usually empty.
CREATE TABLE {schema}.cancelled_in_log (
    job_id  bigint PRIMARY KEY,
    lane_id integer NOT NULL
);
CREATE INDEX cancelled_in_log_lane ON {schema}.cancelled_in_log (lane_id);

CREATE TABLE {schema}.attempt_error (
    job_id     bigint NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    checked_at timestamptz NOT NULL DEFAULT clock_timestamp(), -- when housekeeping last looked whether it is needed
    left_over  boolean NOT NULL DEFAULT false,                 -- what it found: the job waits for nothing and is not dead
    worker_id  integer NOT NULL,
    attempt    smallint NOT NULL,
    error      text NOT NULL
);
CREATE INDEX attempt_error_job ON {schema}.attempt_error (job_id);
CREATE INDEX attempt_error_checked ON {schema}.attempt_error (checked_at);

-- One row per registration of a worker process; the id is its fencing token and never reused.
-- Its open claims are those from call open_from on, and of the older ones those that it lists (open_lanes, open_seqs). Calls are
-- counted, not timed: a clock that is set back would hide claims.
CREATE TABLE {schema}.worker (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text NOT NULL,
    queues       text[] NOT NULL,
    kinds        text[] NOT NULL,
    lease        interval NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    in_touch_since timestamptz NOT NULL DEFAULT clock_timestamp(), -- since when no two heartbeats were half a lease apart
    open_from    bigint NOT NULL DEFAULT 0,
    open_lanes   integer[] NOT NULL DEFAULT '{}',
    open_seqs    bigint[] NOT NULL DEFAULT '{}',
    ended_at     timestamptz,
    suspect_id   bigint
) WITH (fillfactor = 50);
CREATE INDEX worker_live ON {schema}.worker (id) WHERE ended_at IS NULL;
CREATE INDEX worker_ended ON {schema}.worker (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE {schema}.leader (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    worker_id  integer NOT NULL,
    expires_at timestamptz NOT NULL
);

-- One row per key, for at least the retention. ranges: inclusive pairs of job ids [lo, hi, lo, hi, ...],
-- ascending. Removed by forget_keys.
CREATE TABLE {schema}.enqueue_key (
    key    text PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 200),
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ranges bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX enqueue_key_at ON {schema}.enqueue_key (at);
