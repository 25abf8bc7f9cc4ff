// Looks into a PostgreSQL store from outside, on a connection of its own.
import pg from 'pg';

/** `unfinishedSql` counts the jobs that are not completed, as column n. */
export async function openPostgresStore(url, unfinishedSql) {
  const client = new pg.Client(url);
  await client.connect();
  return {
    analyze: () => client.query('ANALYZE'),
    unfinished: async () => Number((await client.query(unfinishedSql)).rows[0].n),
    close: () => client.end(),
  };
}
