use crate::cluster::Fixture;
use tokio_postgres::Client;
use windlass_core::WorkerId;

/// Claims and settles all there is in queue `q`, in the server: millions of rows for a client to read would be most of a test's time.
pub(crate) async fn drain(fixture: &Fixture, client: &Client, worker: WorkerId) {
    let sql = format!(
        "DO $$ DECLARE lanes integer[]; seqs bigint[]; tokens integer[]; BEGIN LOOP
             SELECT array_agg(c.head[1]::integer), array_agg(c.head[2]), array_agg(c.head[3]::integer) INTO lanes, seqs, tokens
             FROM windlass.claim({worker}, '{{q}}', '{{5000}}') AS c WHERE c.head[1] <> 0;
             EXIT WHEN lanes IS NULL;
             PERFORM windlass.settle({worker}, lanes, seqs, tokens, array_fill(NULL::integer, ARRAY[cardinality(lanes)]), '{{}}', '{{}}', '{{}}');
             COMMIT;
         END LOOP; END $$"
    );
    client.batch_execute(&fixture.text(&sql)).await.expect("drains");
}
