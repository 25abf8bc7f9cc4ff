use super::place::Place;
use crate::measure::open_session;
use rusqlite::{Connection, OpenFlags};
use windlass::StoreKind;
use windlass_cli::failure::{Failure, Outcome};

/// How many bytes a store takes now: on PostgreSQL its tables with indexes and TOAST, on SQLite the pages in use (a file
/// keeps the free ones for the next jobs).
pub(crate) async fn footprint(place: &Place) -> Outcome<u64> {
    let bytes = match place.kind {
        StoreKind::Postgres => in_schema(place).await.map_err(|error| error.to_string()),
        _ => in_file(place).map_err(|error| error.to_string()),
    };
    let failed =
        |why: String| Failure::failed("unavailable", format!("cannot read the size of the store: {why}"));
    Ok(u64::try_from(bytes.map_err(failed)?).unwrap_or(0))
}

async fn in_schema(place: &Place) -> Result<i64, tokio_postgres::Error> {
    let query = "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
                 from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relkind = 'r'";
    let session = open_session(&place.url).await?;
    Ok(session.query_one(query, &[&place.name]).await?.get(0))
}

fn in_file(place: &Place) -> Result<i64, rusqlite::Error> {
    let file = Connection::open_with_flags(&place.name, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let query = "select (page_count - freelist_count) * page_size
                 from pragma_page_count, pragma_freelist_count, pragma_page_size";
    file.query_one(query, [], |row| row.get(0))
}
