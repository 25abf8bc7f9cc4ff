-- What people and programs read. The state of a job is derived from the log, never stored.

-- unclaimed: log rows that no claim has handed out, cancelled ones left out.
CREATE OR REPLACE VIEW {schema}.unclaimed AS
    SELECT j.* FROM {schema}.cursor k JOIN {schema}.job j ON j.lane_id = k.lane_id
    WHERE j.xid >= pg_snapshot_xmin(k.from_snapshot) AND j.xid < '{direct}'
      AND NOT {schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, j.id)
      AND NOT EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = j.id);

-- exceptional: jobs that have a row of their own outside the log, in the columns that jobs is made of.
CREATE OR REPLACE VIEW {schema}.exceptional AS
    SELECT h.id, CASE h.state WHEN 'no_handler' THEN 'available' ELSE h.state END AS state, h.kind, h.lane_id,
           h.attempt, h.max_attempts, h.crash_count, h.args, h.enqueued_at,
           CASE WHEN h.state <> 'no_handler' THEN h.available_at END AS scheduled_at,
           NULL::timestamptz AS claimed_at, NULL::integer AS claimed_by, NULL::timestamptz AS finished_at,
           CASE WHEN h.state = 'no_handler' THEN 'waits for a worker that knows its kind' END AS reason, h.attributes
    FROM {schema}.waiting h
    UNION ALL
    SELECT d.id, d.state, d.kind, d.lane_id, d.attempt, d.max_attempts, d.crash_count, d.args, d.enqueued_at,
           NULL, NULL, NULL, d.finished_at, d.reason, d.attributes
    FROM {schema}.dead d;

-- jobs: every job that is still stored, with its state. Reads the whole log: for a page of jobs use
-- list_jobs, for one job job_record.
CREATE OR REPLACE VIEW {schema}.jobs AS
    SELECT s.id, s.state, s.kind, l.queue, l.priority, s.attempt, s.max_attempts, s.crash_count, s.args,
           s.enqueued_at, s.scheduled_at, s.claimed_at, s.claimed_by, s.finished_at, s.reason,
           nullif(s.attributes, '')::json->>'key' AS key, nullif(s.attributes, '')::json->'meta' AS meta, s.result
    FROM (
        SELECT x.*, NULL::json AS result FROM {schema}.exceptional x
        UNION ALL
        SELECT u.id, 'available', u.kind, u.lane_id, u.attempt, u.max_attempts, u.crash_count, u.args, u.enqueued_at,
               NULL, NULL, NULL, NULL, NULL, u.attributes, NULL
        FROM {schema}.unclaimed u
        UNION ALL
        SELECT j.id, CASE WHEN t.completed THEN 'completed' ELSE 'running' END, j.kind, j.lane_id,
               (j.attempt + 1)::smallint, j.max_attempts, j.crash_count, j.args, j.enqueued_at,
               NULL, c.claimed_at, c.worker_id, t.settled_at, NULL, j.attributes,
               (SELECT r.result FROM {schema}.result r WHERE r.lane_id = c.lane_id AND r.seq = c.seq AND r.job_id = j.id LIMIT 1)
        FROM {schema}.claim c
        CROSS JOIN LATERAL {schema}.claim_jobs(c.lane_id, c.seq) j
        LEFT JOIN LATERAL {schema}.settlement_of(c.lane_id, c.seq, j.id) AS t ON true
        WHERE c.job_count > 0 AND coalesce(t.completed, true)
    ) AS s
    JOIN {schema}.lane l ON l.id = s.lane_id;

-- queues: counts per queue, of this moment; finished jobs within retention.
CREATE OR REPLACE VIEW {schema}.queues AS
    SELECT n.name, q.paused_at IS NOT NULL AS paused,
           coalesce(sum(a.available), 0)::bigint AS available, coalesce(sum(r.running), 0)::bigint AS running,
           coalesce(sum(h.scheduled), 0)::bigint AS scheduled, coalesce(sum(h.retryable), 0)::bigint AS retryable,
           coalesce(sum(s.completed), 0)::bigint AS completed,
           coalesce(sum(d.cancelled), 0)::bigint AS cancelled, coalesce(sum(d.discarded), 0)::bigint AS discarded
    FROM (SELECT name FROM {schema}.queue UNION SELECT queue FROM {schema}.lane) AS n
    LEFT JOIN {schema}.queue q ON q.name = n.name
    LEFT JOIN {schema}.lane l ON l.queue = n.name
    LEFT JOIN (SELECT lane_id, sum(n) AS available FROM (
                   SELECT lane_id, count(*) AS n FROM {schema}.unclaimed GROUP BY lane_id
                   UNION ALL SELECT lane_id, count(*) FROM {schema}.waiting WHERE state = 'no_handler' GROUP BY lane_id) AS x
               GROUP BY lane_id) AS a ON a.lane_id = l.id
    LEFT JOIN (SELECT lane_id, sum(open_count) AS running FROM {schema}.open_claims(NULL) GROUP BY lane_id) AS r ON r.lane_id = l.id
    LEFT JOIN (SELECT lane_id, count(*) FILTER (WHERE state = 'scheduled') AS scheduled,
                      count(*) FILTER (WHERE state = 'retryable') AS retryable
               FROM {schema}.waiting GROUP BY lane_id) AS h ON h.lane_id = l.id
    LEFT JOIN (SELECT lane_id, sum(job_count) AS completed FROM {schema}.settlement WHERE completed GROUP BY lane_id) AS s ON s.lane_id = l.id
    LEFT JOIN (SELECT lane_id, count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
                      count(*) FILTER (WHERE state = 'discarded') AS discarded
               FROM {schema}.dead GROUP BY lane_id) AS d ON d.lane_id = l.id
    GROUP BY n.name, q.paused_at;
