//! Jobs of keys, put and done by the thousand.

use crate::session::Session;

impl Session {
    /// Jobs of so many keys, in one transaction.
    pub(crate) async fn put_keyed(&self, queue: &str, jobs: i64, keys: i64) {
        self.run(&format!(
            "INSERT INTO windlass.job (lane_id, kind, args, attributes)
             SELECT l.lane, 'k', '{{}}', json_build_object('key', 'key ' || i % {keys})::text
             FROM (SELECT windlass.lane_of('{queue}', 0) AS lane) AS l, generate_series(1, {jobs}) AS i"
        ))
        .await;
    }

    /// A hundred at a time.
    pub(crate) async fn claim_and_settle(&self, worker: i32, queue: &str, times: i32) {
        self.run(&format!(
            "DO $$ BEGIN FOR i IN 1..{times} LOOP
                 PERFORM windlass.settle({worker}, array_agg(c.head[1]::integer), array_agg(c.head[2]), array_agg(c.head[3]::integer),
                         array_agg(NULL::integer), '{{}}', '{{}}', '{{}}')
                 FROM windlass.claim({worker}, '{{{queue}}}', '{{100}}') AS c WHERE c.head[1] <> 0;
                 COMMIT;
             END LOOP; END $$"
        ))
        .await;
    }
}
