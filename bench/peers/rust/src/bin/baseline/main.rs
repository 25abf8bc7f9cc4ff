//! The plain queue of PostgreSQL: one row per job, claimed by SKIP LOCKED, marked, and deleted when it is done.
//! The best of that design, with nothing that a real queue adds: no retries, priorities, schedules or heartbeats.

mod session;
mod worker;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::SinkExt as _;
use peers::{Command, Producer, Settings, System, Tally};
use serde_json::{Value, json};
use session::Session;
use std::{ops::Range, process::ExitCode, sync::Arc};
use tokio_postgres::Statement;

const SCHEMA: &str = include_str!("schema.sql");
/// Handlers at once of a tuned worker, and where nobody says another number.
const CONCURRENCY: usize = 500;
const DEFAULT_CONCURRENCY: usize = 10;
const KIND: &str = "count";

fn main() -> ExitCode {
    peers::run::<Baseline>()
}

struct Baseline {
    url: String,
    session: Session,
}

impl System for Baseline {
    const PACKAGE: &'static str = env!("CARGO_PKG_NAME");
    type Producer = Clerk;
    type Worker = worker::Running;

    async fn open(settings: &Settings) -> anyhow::Result<Self> {
        Ok(Self { url: settings.url.clone(), session: Session::open(&settings.url).await? })
    }

    async fn install(&self) -> anyhow::Result<()> {
        Ok(self.session.batch_execute(SCHEMA).await?)
    }

    async fn producers(&self, count: usize) -> anyhow::Result<Vec<Clerk>> {
        let mut clerks = Vec::new();
        for _ in 0..count {
            let session = Session::open(&self.url).await?;
            let insert = session.prepare("INSERT INTO job (kind, args) VALUES ($1, $2)").await?;
            clerks.push(Clerk { session, insert });
        }
        Ok(clerks)
    }

    async fn worker(&self, settings: &Settings, tally: Arc<Tally>) -> anyhow::Result<worker::Running> {
        worker::Running::connect(&self.url, concurrency(settings), tally).await
    }

    async fn unfinished(&self) -> anyhow::Result<u64> {
        let count: i64 = self.session.query_one("SELECT count(*) FROM job", &[]).await?.get(0);
        Ok(count.unsigned_abs())
    }

    fn describe(settings: &Settings) -> Value {
        match settings.command {
            Command::Enqueue => json!({
                "clients": settings.clients,
                "call": if settings.batch == 1 { "INSERT" } else { "COPY" },
                "batch": settings.batch,
            }),
            _ => json!({
                "concurrency": concurrency(settings), "claim_batch": worker::CLAIM, "delete_batch": worker::DELETE,
                "connections": 3, "notifications": true, "poll_interval_ms": worker::POLL.as_millis() as u64,
                "processes": settings.processes, "batch": settings.batch,
            }),
        }
    }
}

fn concurrency(settings: &Settings) -> usize {
    match settings.command {
        Command::Work => settings.concurrency,
        Command::Drain if !settings.tuned => DEFAULT_CONCURRENCY,
        _ => CONCURRENCY,
    }
}

struct Clerk {
    session: Session,
    insert: Statement,
}

impl Producer for Clerk {
    async fn one(&mut self, id: u64) -> anyhow::Result<()> {
        self.session.execute(&self.insert, &[&KIND, &json!({ "id": id })]).await?;
        Ok(())
    }

    async fn many(&mut self, ids: Range<u64>) -> anyhow::Result<()> {
        let copy = self.session.copy_in::<_, Bytes>("COPY job (kind, args) FROM STDIN").await?;
        let mut rows = BytesMut::new();
        for id in ids {
            rows.put_slice(format!("{KIND}\t{{\"id\":{id}}}\n").as_bytes());
        }
        let mut copy = std::pin::pin!(copy);
        copy.send(rows.freeze()).await?;
        copy.finish().await?;
        Ok(())
    }
}
