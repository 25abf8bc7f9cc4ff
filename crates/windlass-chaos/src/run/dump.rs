use crate::{
    actor::Task,
    database,
    history::{Tick, What},
};
use anyhow::{Context as _, Result};
use futures_util::{TryStreamExt as _, pin_mut};
use windlass::{Client, JobFilter, JobState};

/// Every job that is stored, every record of it.
pub(super) async fn dump(store: &str) -> Result<Vec<What>> {
    match store.starts_with("postgres") {
        true => dump_postgres(store).await,
        false => dump_pages(store).await,
    }
}

/// One pass over the view that derives states from the log.
async fn dump_postgres(store: &str) -> Result<Vec<What>> {
    let database = database::connect(store).await?;
    // The key of a schedule's job says which tick it is of: see `Tick`.
    let text = "SELECT id, (args->>'key')::bigint + coalesce(extract(epoch FROM (meta->>'windlass.tick')::timestamptz)::bigint, 0),
        state, attempt, crash_count, (result->>'key')::bigint, coalesce(reason ^@ 'expired', false) FROM windlass.jobs";
    let rows = database.query_raw::<_, i32, _>(text, []).await?;
    pin_mut!(rows);
    let mut records = Vec::new();
    while let Some(row) = rows.try_next().await? {
        let state: &str = row.get(2);
        records.push(What::Stored {
            id: row.get(0),
            key: row.get::<_, Option<i64>>(1).unwrap_or(-1),
            state: state.parse::<JobState>()?,
            attempt: row.get::<_, i16>(3).unsigned_abs(),
            crashes: row.get::<_, i16>(4).unsigned_abs(),
        });
        if row.get(6) && state == "cancelled" {
            records.push(What::Expired { id: row.get(0) });
        }
        if let Some(key) = row.get::<_, Option<i64>>(5) {
            records.push(What::StoredResult { id: row.get(0), key });
        }
    }
    let effects = database.query("SELECT job FROM public.chaos_effect", &[]).await?;
    records.extend(effects.iter().map(|row| What::Effect { id: row.get(0) }));
    Ok(records)
}

#[derive(serde::Deserialize)]
struct Returned {
    key: i64,
}

async fn dump_pages(store: &str) -> Result<Vec<What>> {
    let client = Client::connect(store).await?;
    let mut filter = JobFilter { limit: JobFilter::MAX_LIMIT, ..JobFilter::default() };
    let mut records = Vec::new();
    loop {
        let page = client.jobs(&filter).await?;
        for job in page.iter() {
            let task: Task = serde_json::from_str(job.args.as_str())
                .with_context(|| format!("job {} has args that are no task", job.id))?;
            let (state, attempt, crashes) = (job.state, job.attempt, job.crash_count);
            let key = Tick::key_in(task.key, job.meta.as_ref().map(windlass::Args::as_str));
            records.push(What::Stored { id: job.id.0, key, state, attempt, crashes });
            let is_expired = job.reason.as_ref().is_some_and(|reason| reason.starts_with("expired"));
            if state == JobState::Cancelled && is_expired {
                records.push(What::Expired { id: job.id.0 });
            }
            if let Some(result) = &job.result {
                let Returned { key } = serde_json::from_str(result.as_str())
                    .with_context(|| format!("job {} has a result that names no key", job.id))?;
                records.push(What::StoredResult { id: job.id.0, key });
            }
        }
        filter.after = page.next;
        if filter.after.is_none() {
            break;
        }
    }
    client.close().await;
    Ok(records)
}
