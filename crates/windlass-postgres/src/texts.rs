use crate::sql::render;

/// The statements, rendered for this store's schema.
pub(crate) struct Texts {
    pub(crate) claim: String,
    pub(crate) settle: String,
    pub(crate) settle_with_results: String,
    pub(crate) insert: [String; SEGMENTS],
    /// Finds the lane itself.
    pub(crate) insert_named: [String; SEGMENTS],
    /// Several of one lane in one statement, at most [`ID_BLOCK`]: their ids are a block.
    pub(crate) insert_block: [String; SEGMENTS],
    /// Several of one lane in one statement, whose ids are so many blocks.
    pub(crate) insert_blocks: [String; SEGMENTS],
    /// Several of any lanes in one statement, each with a block of its own; the ids come in the order of the jobs.
    pub(crate) insert_together: [String; SEGMENTS],
    /// Takes so many ids, in blocks as large as the sequence steps, and names the queues of the rows to come.
    pub(crate) take: String,
    pub(crate) copy: [String; SEGMENTS],
    /// With the column that most jobs leave empty.
    pub(crate) copy_attributed: [String; SEGMENTS],
    pub(crate) unnest: [String; SEGMENTS],
    pub(crate) copy_waiting: String,
    pub(crate) unnest_waiting: String,
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

/// Jobs of one lane, under ids that follow from the first of each block.
fn in_blocks(first: &str, id: &str) -> String {
    format!(
        "INSERT INTO {{schema}}.job_{{segment}} (id, lane_id, max_attempts, kind, args)
         SELECT {id}, $1, m, k, a
         FROM (SELECT {first} AS first, set_config('windlass.queues', $5, true) OFFSET 0) AS b,
              unnest($2, $3, $4) WITH ORDINALITY AS u(m, k, a, n)
         RETURNING id"
    )
}

impl Texts {
    pub(crate) fn new(schema: &str) -> Self {
        let per_segment = |text: &str| {
            std::array::from_fn(|segment| render(&text.replace("{segment}", &segment.to_string()), schema))
        };
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
            insert_block: per_segment(&in_blocks("nextval('{schema}.job_id_seq')", "b.first + n - 1")),
            insert_blocks: per_segment(&in_blocks(
                "ARRAY(SELECT nextval('{schema}.job_id_seq') FROM generate_series(1, $6))",
                &format!("b.first[(n - 1) / {ID_BLOCK} + 1] + (n - 1) % {ID_BLOCK}"),
            )),
            insert_together: per_segment(
                "INSERT INTO {schema}.job_{segment} (lane_id, max_attempts, kind, args)
                 SELECT l, m, k, a FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS u(l, m, k, a, n)
                 WHERE (SELECT set_config('windlass.queues', $5, true)) IS NOT NULL ORDER BY n
                 RETURNING id",
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
