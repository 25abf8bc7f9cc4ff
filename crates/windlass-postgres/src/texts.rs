use crate::sql::render;

/// The statements, rendered for this store's schema.
pub(crate) struct Texts {
    pub(crate) claim: String,
    pub(crate) settle: String,
    pub(crate) settle_with_results: String,
    pub(crate) insert: [String; SEGMENTS],
    /// Finds the lane itself.
    pub(crate) insert_named: [String; SEGMENTS],
    pub(crate) insert_plain: Inserts,
    pub(crate) insert_attributed: Inserts,
    /// Several that are scheduled, each with a block of its own.
    pub(crate) insert_scheduled: String,
    /// Takes so many ids, in blocks as large as the sequence steps, and names the queues of the rows to come.
    pub(crate) take: String,
    pub(crate) copy: [String; SEGMENTS],
    /// With the column that most jobs leave empty.
    pub(crate) copy_attributed: [String; SEGMENTS],
    pub(crate) unnest: [String; SEGMENTS],
    pub(crate) copy_waiting: String,
    pub(crate) unnest_waiting: String,
}

/// Statements that store several jobs which are available at once; the ids ascend with the jobs.
pub(crate) struct Inserts {
    /// Of one lane, at most [`ID_BLOCK`]: their ids are a block.
    pub(crate) block: [String; SEGMENTS],
    /// Of one lane, whose ids are so many blocks.
    pub(crate) blocks: [String; SEGMENTS],
    /// Of any lanes, each with a block of its own.
    pub(crate) apart: [String; SEGMENTS],
}

/// The size of the ring of segments; `sql/tables/001_log.sql` makes as many.
pub(crate) const SEGMENTS: usize = 4;

/// How many ids a block has: each `nextval` takes as many, and the index `job_id` has an entry for the first of each.
pub(crate) const ID_BLOCK: usize = 16;

/// Added to a statement that ends jobs: tells those who wait, if any do. They hold a lock in shared mode; a settlement
/// without any pays two looks at the lock table. The two are one expression, as in wake() of 03_lane.sql.
const TELL: &str = "
    CASE WHEN pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext({name} || '.ends'), 0)
         THEN pg_catalog.pg_advisory_unlock(pg_catalog.hashtext({name} || '.ends'), 0)
         ELSE pg_catalog.pg_notify({name} || '.ends', '') IS NULL END";

impl Inserts {
    /// With the column of attributes and its parameter, or without.
    fn new(schema: &str, [column, parameter]: [&str; 2]) -> Self {
        let in_blocks = |first: &str, id: &str| {
            let text = format!(
                "INSERT INTO {{schema}}.job_{{segment}} (id, lane_id, max_attempts, kind, args{column})
                 SELECT {id}, $1, m, k, a{column}
                 FROM (SELECT {first} AS first, set_config('windlass.queues', $5, true) OFFSET 0) AS b,
                      unnest($2, $3, $4{parameter}) WITH ORDINALITY AS u(m, k, a{column}, n)
                 RETURNING id"
            );
            per_segment(&text, schema)
        };
        let apart = format!(
            "INSERT INTO {{schema}}.job_{{segment}} (lane_id, max_attempts, kind, args{column})
             SELECT l, m, k, a{column} FROM unnest($1, $2, $3, $4{parameter}) WITH ORDINALITY AS u(l, m, k, a{column}, n)
             WHERE (SELECT set_config('windlass.queues', $5, true)) IS NOT NULL ORDER BY n
             RETURNING id"
        );
        Self {
            block: in_blocks("nextval('{schema}.job_id_seq')", "b.first + n - 1"),
            blocks: in_blocks(
                &format!(
                    "ARRAY(SELECT nextval('{{schema}}.job_id_seq') FROM generate_series(1, (cardinality($2) + {ID_BLOCK} - 1) / {ID_BLOCK}))"
                ),
                &format!("b.first[(n - 1) / {ID_BLOCK} + 1] + (n - 1) % {ID_BLOCK}"),
            ),
            apart: per_segment(&apart, schema),
        }
    }
}

fn per_segment(text: &str, schema: &str) -> [String; SEGMENTS] {
    std::array::from_fn(|segment| render(&text.replace("{segment}", &segment.to_string()), schema))
}

impl Texts {
    pub(crate) fn new(schema: &str) -> Self {
        let per_segment = |text| per_segment(text, schema);
        Self {
            claim: render("SELECT * FROM {schema}.claim($1, $2, $3, $4, $5)", schema),
            settle: render(&format!("SELECT {{schema}}.settle($1, $2, $3, $4, $5, $6, $7, $8, $9), {TELL}"), schema),
            settle_with_results: render(
                &format!(
                    "SELECT {{schema}}.settle_with_results($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14), {TELL}"
                ),
                schema,
            ),
            insert: per_segment(
                "INSERT INTO {schema}.job_{segment} (lane_id, max_attempts, kind, args) VALUES ($1, $2, $3, $4)
                 RETURNING id, set_config('windlass.queues', $5, true)",
            ),
            insert_named: per_segment(
                "INSERT INTO {schema}.job_{segment} (lane_id, max_attempts, kind, args)
                 VALUES ({schema}.lane_of($1, $2), $3, $4, $5)
                 RETURNING id, set_config('windlass.queues', $1, true)",
            ),
            insert_plain: Inserts::new(schema, ["", ""]),
            insert_attributed: Inserts::new(schema, [", attributes", ", $6"]),
            insert_scheduled: render(
                "WITH j AS MATERIALIZED (
                     SELECT nextval('{schema}.job_id_seq') AS id, u.*, c.now
                     FROM (SELECT clock_timestamp() AS now, set_config('windlass.queues', $5, true) OFFSET 0) AS c,
                          unnest($1, $2, $3, $4, $6, $7, $8) WITH ORDINALITY AS u(l, m, k, a, attributes, t, d, n)
                     ORDER BY n),
                 stored AS (
                     INSERT INTO {schema}.waiting (id, lane_id, max_attempts, kind, args, attributes, available_at)
                     SELECT id, l, m, k, a, attributes, greatest(coalesce(t, now + d * interval '1 microsecond'), now) FROM j)
                 SELECT id FROM j",
                schema,
            ),
            take: render(
                "SELECT array_agg(nextval('{schema}.job_id_seq')), max(s.seqincrement), clock_timestamp(),
                        set_config('windlass.queues', $2, true)
                 FROM pg_catalog.pg_sequence s, generate_series(1, ($1 + s.seqincrement - 1) / s.seqincrement)
                 WHERE s.seqrelid = '{schema}.job_id_seq'::regclass",
                schema,
            ),
            copy: per_segment(
                "COPY {schema}.job_{segment} (id, lane_id, max_attempts, kind, args) FROM STDIN (FORMAT binary)",
            ),
            copy_attributed: per_segment(
                "COPY {schema}.job_{segment} (id, lane_id, max_attempts, kind, args, attributes) FROM STDIN (FORMAT binary)",
            ),
            unnest: per_segment(
                "INSERT INTO {schema}.job_{segment} (id, lane_id, max_attempts, kind, args, attributes)
                 SELECT i, l, m, k, a::json, b FROM unnest($1, $2, $3, $4, $5, $6) AS u(i, l, m, k, a, b)",
            ),
            copy_waiting: render(
                "COPY {schema}.waiting (id, lane_id, max_attempts, kind, args, attributes, available_at) FROM STDIN (FORMAT binary)",
                schema,
            ),
            unnest_waiting: render(
                "INSERT INTO {schema}.waiting (id, lane_id, max_attempts, kind, args, attributes, available_at)
                 SELECT i, l, m, k, a::json, b, d FROM unnest($1, $2, $3, $4, $5, $6, $7) AS u(i, l, m, k, a, b, d)",
                schema,
            ),
        }
    }
}
