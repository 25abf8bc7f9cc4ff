use crate::{
    Call, Engine, Failure,
    call::guarded,
    calls::{call, sql_json},
    closing::{Closing, Held},
    moved_clock::MovedClock,
};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};
use windlass::{Args, ConnectOptions, Context, ErrorKind, Keyring, Store};

/// A client for code without an async runtime: each call blocks its thread.
#[derive(Clone, Debug)]
pub struct Client {
    engine: Engine,
    pub(crate) inner: windlass::Client,
    /// Of a store of a test.
    clock: Option<MovedClock>,
    closing: Closing,
}

impl Client {
    /// Opens the store that a URL names: `postgres://user@host/database` or `sqlite:FILE`.
    ///
    /// # Errors
    /// A malformed URL, or a store that cannot be opened.
    pub fn open(engine: &Engine, url: &str) -> Result<Self, Failure> {
        let inner = engine.run(windlass::Client::connect(url))?;
        Ok(Self { engine: engine.clone(), inner, clock: None, closing: Closing::default() })
    }

    /// A client of a store that is made of this one's: for whoever watches what a worker asks of it. It knows no transactions and no keys.
    #[must_use]
    pub fn over(&self, store: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        let inner = windlass::Client::from_store(store(Arc::clone(self.inner.store())));
        Self { engine: self.engine.clone(), inner, clock: None, closing: Closing::default() }
    }

    /// The same with keys, as [`Keyring::parse`] reads them (`ID:BASE64,ID:BASE64`, the current one first): the client seals what encrypted jobs are
    /// given and opens what it is asked for, and so do its workers.
    ///
    /// # Errors
    /// Text that holds no keys, before anything is opened; the message shows nothing of it.
    pub fn open_with_keys(engine: &Engine, url: &str, keys: &str) -> Result<Self, Failure> {
        let keyring = Keyring::parse(keys)?;
        let client = Self::open(engine, url)?;
        Ok(Self { inner: client.inner.with_keyring(keyring), ..client })
    }

    /// The store of a test: a SQLite file whose clock can be [moved](Self::travel). With keys, where there are any.
    ///
    /// # Errors
    /// As [`Self::open_with_keys`], and for a store that has a clock of its own.
    pub fn open_for_test(engine: &Engine, url: &str, keys: Option<&str>) -> Result<Self, Failure> {
        let keyring = keys.map(Keyring::parse).transpose()?;
        let clock = MovedClock::default();
        let options = ConnectOptions::default().with_clock(clock.clock());
        let inner = engine.run(windlass::Client::connect_with(url, options))?;
        let inner = match keyring {
            Some(keyring) => inner.with_keyring(keyring),
            None => inner,
        };
        Ok(Self { engine: engine.clone(), inner, clock: Some(clock), closing: Closing::default() })
    }

    /// Lets time pass in the store of a test, at once.
    ///
    /// # Errors
    /// In any other store.
    pub fn travel(&self, by: Duration) -> Result<(), Failure> {
        let message = "time can be moved in the store of a test alone";
        let clock = self.clock.as_ref();
        let clock = clock.ok_or_else(|| Failure::of(ErrorKind::InvalidOption, message))?;
        clock.advance(by);
        Ok(())
    }

    /// Does one operation and waits for its end: JSON in, JSON out.
    ///
    /// | operation | takes | gives |
    /// |---|---|---|
    /// | `migrate` | | `from`, `to` |
    /// | `enqueue` | `jobs`: [specs](crate::JobSpec); or `job`, and `args` of several like it; `idempotency_key` | `ids`, `repeated` |
    /// | `enqueue_unique` | the same without a key | `jobs`: `id`, `conflict` |
    /// | `enqueue_sql` | the same | a list of `text`, `params`: to be run by the user's own driver |
    /// | `job`, `result`, `checkpoint` | `id` | a record, a value, or null |
    /// | `args` | `id` | the job's args, opened where they are encrypted, or null |
    /// | `wait` | `id`, `timeout_ms` | the record of the job that ended, or null |
    /// | `jobs` | `state`, `queue`, `kind`, `tag`, `after`, `limit` | `jobs`, `next` |
    /// | `cancel`, `retry`, `delete`, `edit` | `ids` | `replies` |
    /// | | `filter` (which may be `ids` alone) or `everything`, `dry_run`, `at_most`, `per_second` | counts |
    /// | `edit` also | `edit`: `now`, `delay_ms` or `scheduled_at`, `queue`, `priority`, `max_attempts`, `args` | |
    /// | `pause`, `resume`, `unlimit_keys`, `key_limits` | `queue` | nothing; the limits or null |
    /// | `limit` | `queue`, `limits` | |
    /// | `limit_keys`, `limit_key`, `unlimit_key` | `queue`, `key`, `limit` | |
    /// | `put_schedules` | `schedules`, `source`, `prune` | `names`, `replies`, `removed` |
    /// | `put_schedule_file` | `file`: the path of one in TOML, `prune` | the same |
    /// | `schedules` | `source`, `after`, `limit` | `schedules`, `next` |
    /// | `schedule`, `remove_schedule`, `pause_schedule`, `resume_schedule`, `run_schedule` | `name` | a record or null; nothing; `id` |
    /// | `preview_schedule` | `schedule`, `after`, `count` | times |
    /// | `events` | `from`, `queues`, `kinds`, `events`, `limit` | `events`, `next`, `more` |
    /// | `history` | `last_ms`, `step_ms`, `queue`, `kind`, `outcome` | the counts |
    /// | `timings`, `failures` | `last_ms`, `step_ms`, `queue`, `kind` | `step_ms`, `timed`; `failures` |
    /// | `mark` | `label`, `actor` | |
    /// | `marks` | `last_ms` | `marks` |
    /// | `queues` | `name`, `search`, `after`, `limit` | the list |
    /// | `status`, `settings`, `retention` | | the list or record |
    /// | `audit` | `actor`, `action`, `target`, `since`, `before`, `limit` | `entries`, `next` |
    /// | `append_audit` | `entries`: `actor`, `action`, `target`, `role`, `filter`, `reason`, `count`, `outcome`, `request_id` | |
    /// | `acting_as` | `actor`, `op`, `payload` | what that operation gives; what it changes is noted in the audit log |
    /// | `set_retention` | `rules` | |
    /// | `configure` | some of `retention_ms`, `dead_retention_ms`, `audit_retention_ms`, `segment_bytes`, `max_crashes` | |
    /// | `any_available` | `queues`, `kinds` | whether a worker of these would be given a job |
    ///
    /// # Errors
    /// [`windlass::ErrorKind::InvalidOption`] for a payload that does not fit, and the client's.
    pub fn run(&self, op: &str, payload: &str) -> Result<String, Failure> {
        self.engine.run(call(&self.inner, op, payload))
    }

    /// The same without waiting: calls back from another thread.
    ///
    /// # Errors
    /// In a forked child; nothing is called back then.
    pub fn start(
        &self,
        op: impl Into<String>,
        payload: String,
        done: impl FnOnce(Result<String, Failure>) + Send + 'static,
    ) -> Result<Call, Failure> {
        let (client, op) = (self.inner.clone(), op.into());
        self.engine.start(async move { call(&client, &op, &payload).await }, done)
    }

    /// Starts several: what they store is stored together. Calls `some_done` after it called back those that are done at the same time.
    ///
    /// # Errors
    /// In a forked child; nothing is called back then.
    pub fn start_all<D: FnOnce(Result<String, Failure>) + Send + 'static>(
        &self,
        calls: impl IntoIterator<Item = (String, String, D)>,
        some_done: impl Fn() + Send + 'static,
    ) -> Result<Vec<Call>, Failure> {
        let works = calls.into_iter().map(|(op, payload, done)| {
            let client = self.inner.clone();
            async move { done(guarded(call(&client, &op, &payload)).await) }
        });
        self.engine.start_all(works, some_done)
    }

    /// The statement that completes a job inside its handler's transaction, for the user's own driver: `text`, `params`.
    ///
    /// # Errors
    /// [`windlass::ErrorKind::Unsupported`] when the store is not PostgreSQL.
    pub fn complete_sql(&self, context: &Context) -> Result<String, Failure> {
        Ok(sql_json(self.inner.complete_sql(context)?).to_string())
    }

    /// Keeps a checkpoint of a running job, given as JSON, and calls back when the store has it.
    ///
    /// # Errors
    /// What is no JSON, and in a forked child; nothing is called back then.
    pub fn start_checkpoint(
        &self,
        context: Context,
        value: &str,
        done: impl FnOnce(Result<String, Failure>) + Send + 'static,
    ) -> Result<Call, Failure> {
        let value = Args::parse(value)?;
        let kept = async move { context.checkpoint(&value).await.map(|()| "null".to_owned()) };
        self.engine.start(kept, done)
    }

    /// Asks for the last checkpoint of a running job, and calls back with its JSON, `null` when there is none.
    ///
    /// # Errors
    /// In a forked child; nothing is called back then.
    pub fn start_last_checkpoint(
        &self,
        context: Context,
        done: impl FnOnce(Result<String, Failure>) + Send + 'static,
    ) -> Result<Call, Failure> {
        let asked = async move {
            let kept = context.last_checkpoint::<Box<RawValue>>().await?;
            Ok::<_, windlass::Error>(kept.map_or_else(|| "null".to_owned(), |kept| kept.get().to_owned()))
        };
        self.engine.start(asked, done)
    }

    /// Closes its connections: where workers of it run, when the last of them has ended.
    pub fn close(&self) {
        if !self.closing.is_now() {
            return;
        }
        // A fork has no connection of its own to close.
        let _ = self.engine.run(async {
            self.inner.close().await;
            Ok::<_, Failure>(())
        });
    }

    /// Keeps it open for a worker.
    pub(crate) fn held(&self) -> Held {
        self.closing.held(&self.engine, &self.inner)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}
