use crate::{
    borrowed::Borrowed,
    deadline::{Deadline, Patience},
    error::{Effect, store_error},
    guard::Guard,
    pools::{Pools, Role},
    query::{Param, Query, Read, read_each},
    session::CommitWatch,
};
use std::{pin::pin, sync::Arc};
use tokio_postgres::types::{ToSql, Type};
use windlass_core::Result;

/// What the pools set for a whole session, set for one transaction: a transaction-mode pooler allows no more.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

/// One borrowed connection. Statements are prepared once per connection, except behind a
/// transaction-mode pooler, which may hand each statement to another server process.
pub(crate) struct Connection {
    pub(crate) object: Borrowed,
    pub(crate) guard: Guard,
    /// For how long a statement waits for a lock, where that is not as long as the call may take.
    pub(crate) turn: Option<&'static str>,
}

impl Connection {
    /// Borrows one; `what` names the call in messages.
    pub(crate) async fn of(
        pools: &Arc<Pools>,
        role: Role,
        what: &'static str,
        patience: Patience,
    ) -> Result<Self> {
        let limit = patience.limit(pools.call_timeout());
        let object = Borrowed::new(pools.take(role, what, limit).await?, Arc::clone(pools));
        // The time begins again: a call that waited long for a connection must not take that connection for a silent one.
        let deadline = Deadline::after(limit);
        let guard = Guard { handle: Arc::clone(&object.handle), pools: Arc::clone(pools), what, deadline };
        Ok(Self { object, guard, turn: None })
    }

    /// The three messages go out together: one round trip, and all or none of them is sent.
    async fn each_unprepared(
        &self,
        sql: &str,
        params: &[Param<'_>],
        effect: Effect,
        read: Read<'_>,
    ) -> Result<()> {
        let turn = self.turn.map(|turn| format!("{BEGIN}; SET LOCAL lock_timeout = '{turn}'"));
        let (began, answered, ended) = tokio::join!(
            biased;
            self.object.batch_execute(turn.as_deref().unwrap_or(BEGIN)),
            read_each(self.object.query_typed_raw(sql, params.iter().cloned()), effect, read),
            self.object.batch_execute("COMMIT"),
        );
        let fail = |cause| store_error(cause, effect);
        began.map_err(fail)?;
        answered?;
        ended.map_err(fail)
    }

    /// Begins the deadline again, for the next of several statements that each have a deadline of their own.
    pub(crate) fn extend(&mut self, patience: Patience) {
        self.guard.deadline = Deadline::after(patience.limit(self.guard.pools.call_timeout()));
    }

    /// Before a statement that may take long: finds out within a short call's time whether anybody answers.
    pub(crate) async fn begin_long(&mut self, patience: Patience) -> Result<()> {
        let answered = async {
            let answer = self.object.batch_execute("").await;
            answer.map_err(|cause| store_error(cause, Effect::Repeatable))
        };
        self.guard.run(Effect::Repeatable, pin!(answered)).await?;
        self.extend(patience);
        Ok(())
    }

    /// To begin before a write whose acknowledgement must mean that the synchronous standby has it.
    pub(crate) fn watch_commit(&self) -> CommitWatch {
        CommitWatch::begin(&self.object)
    }

    /// Begins a transaction of our own. What breaks before its COMMIT is not ambiguous.
    pub(crate) async fn begin(&mut self) -> Result<deadpool_postgres::Transaction<'_>> {
        self.object
            .build_transaction()
            .isolation_level(tokio_postgres::IsolationLevel::ReadCommitted)
            .start()
            .await
            .map_err(|cause| store_error(cause, Effect::Repeatable))
    }
}

impl Query for Connection {
    /// As its own transaction.
    async fn each(&self, sql: &str, params: &[Param<'_>], effect: Effect, read: Read<'_>) -> Result<()> {
        if self.turn.is_some() || self.guard.pools.is_pooled_by_transaction() {
            return self.guard.run(effect, pin!(self.each_unprepared(sql, params, effect, read))).await;
        }
        let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        let prepared = pin!(async {
            let prepared = self.object.prepare_typed_cached(sql, &types).await;
            prepared.map_err(|cause| store_error(cause, Effect::Repeatable))
        });
        let statement = self.guard.run(Effect::Repeatable, prepared).await?;
        let answered = pin!(read_each(self.object.query_raw(&statement, values), effect, read));
        self.guard.run(effect, answered).await
    }
}

/// Commits it. What breaks from here on is ambiguous.
pub(crate) async fn commit(transaction: deadpool_postgres::Transaction<'_>) -> Result<()> {
    transaction.commit().await.map_err(|cause| store_error(cause, Effect::Write))
}
