//! One session of a scenario: its connection and where it is in its operations.

use super::{
    calls::{self, At},
    schema::render,
};
use crate::permuter::{
    call::{Call, Reply},
    scenario::End,
};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_postgres::Client;
use windlass_postgres::PostgresStore;

/// A session's connection, and where it is.
pub(crate) struct Session {
    client: Arc<Client>,
    /// Its server process.
    pub(crate) pid: i32,
    /// The number of its gates' locks.
    pub(crate) gates: i32,
    /// How many of its operations have begun.
    pub(crate) begun: usize,
    pub(crate) phase: Phase,
    /// The gates that it passed in this transaction.
    pub(crate) passed: i32,
    /// Steps that were due while it was blocked.
    pub(crate) owed: usize,
}

/// Where a session is.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Between transactions.
    Idle,
    /// In a transaction that has its id and knows the segment to write to.
    Early { call: Call, segment: usize },
    /// A statement is under way, since this tick of the book.
    Running { call: Call, tick: u64, stop: Stop },
    /// The operation has answered; its transaction is open.
    Answered { call: Call, reply: Reply },
}

/// What holds a statement up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Nothing known.
    None,
    /// A gate of ours.
    Gate,
    /// Another session.
    Blocked,
}

impl Session {
    pub(crate) fn new(client: Arc<Client>, pid: i32, gates: i32) -> Self {
        Self { client, pid, gates, begun: 0, phase: Phase::Idle, passed: 0, owed: 0 }
    }

    /// Back to the beginning, for the next order.
    pub(crate) fn reset(&mut self) {
        (self.begun, self.phase, self.passed, self.owed) = (0, Phase::Idle, 0, 0);
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// Opens a transaction that gets its id, and looks up where to write. Never blocks.
    pub(crate) async fn begin_early(&mut self, schema: &str, call: Call) -> anyhow::Result<()> {
        self.client.batch_execute(BEGIN).await?;
        let look = render("SELECT {schema}.current_segment(), pg_current_xact_id()::text", schema);
        let segment: i16 = self.client.query_one(&look, &[]).await?.get(0);
        let segment = segment.try_into()?;
        self.phase = Phase::Early { call, segment };
        Ok(())
    }

    /// Sends the operation off, in a transaction of its own when none is open. The reply comes by `replies`.
    pub(crate) async fn start(
        &mut self,
        (store, schema, queue): (&PostgresStore, &Arc<str>, &Arc<str>),
        (number, tick): (usize, u64),
        call: Call,
        replies: &mpsc::UnboundedSender<(usize, Reply)>,
    ) -> anyhow::Result<()> {
        let segment = match &self.phase {
            Phase::Early { segment, .. } => Some(*segment),
            _ => None,
        };
        if segment.is_none() {
            self.client.batch_execute(BEGIN).await?;
        }
        self.passed = 0;
        self.phase = Phase::Running { call: call.clone(), tick, stop: Stop::None };
        let (client, replies) = (Arc::clone(&self.client), replies.clone());
        let (store, schema, queue) = (store.clone(), Arc::clone(schema), Arc::clone(queue));
        tokio::spawn(async move {
            let at = At { client: &client, store: &store, schema: &schema, queue: &queue };
            let reply = calls::perform(at, &call, segment).await;
            // Nobody listens when the order was given up.
            let _ = replies.send((number, reply));
        });
        Ok(())
    }

    /// Ends the open transaction.
    pub(crate) async fn end(&mut self, end: End) -> anyhow::Result<()> {
        let text = if end == End::Commit { "COMMIT" } else { "ROLLBACK" };
        self.client.batch_execute(text).await?;
        self.phase = Phase::Idle;
        Ok(())
    }
}

/// Whatever the database's default isolation is, Windlass asks for this one.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
