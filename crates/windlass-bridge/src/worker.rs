use crate::{Client, Desk, Engine, Failure, retry_policy::written};
use serde::{Deserialize, Deserializer};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use windlass::{
    Error, ErrorKind, RetryPolicy, Settling, WorkerBuilder, WorkerStats,
    lend::{Bell, Lender},
};

/// What a worker works. As JSON: its fields, and times with the suffix `_ms`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSpec {
    /// Queues, and how many jobs of each run at once. Empty: `default`, 10 at once.
    pub queues: Vec<(String, usize)>,
    /// The kinds that it can run, at [desks](Worker::desk). Empty, and no blocking ones: any.
    pub kinds: Vec<String>,
    /// Further kinds, which are run elsewhere: at [desks of their own](Worker::blocking_desk).
    pub blocking_kinds: Vec<String>,
    /// The same for kinds that are run in child processes: at [desks of their own](Worker::child_desk), too.
    pub child_kinds: Vec<String>,
    /// Those of all its kinds whose jobs are encrypted: what is plain fails.
    pub encrypted_kinds: Vec<String>,
    /// Its name for people. Default: the host's and the process's.
    pub name: Option<String>,
    /// How long an attempt may take.
    #[serde(rename = "timeout_ms", deserialize_with = "millis")]
    pub timeout: Option<Duration>,
    /// How long failed attempts wait, of jobs that do not say themselves.
    #[serde(deserialize_with = "written")]
    pub retry_policy: Option<RetryPolicy>,
    /// How long the worker may be silent before others take its jobs.
    #[serde(rename = "lease_ms", deserialize_with = "millis")]
    pub lease: Option<Duration>,
    /// How long a shutdown lets running jobs go on.
    #[serde(rename = "grace_period_ms", deserialize_with = "millis")]
    pub grace_period: Option<Duration>,
    /// Whether a slot waits until its job's settlement is committed.
    pub strict: bool,
    /// Takes plain args of encrypted kinds, too.
    pub accept_plain_args: bool,
}

fn millis<'de, D: Deserializer<'de>>(ms: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(ms)?.map(Duration::from_millis))
}

impl WorkerSpec {
    /// Reads one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for what is none.
    pub fn parse(json: &str) -> Result<Self, Failure> {
        serde_json::from_str(json).map_err(|cause| {
            Error::new(ErrorKind::InvalidOption, format!("the worker's options: {cause}")).into()
        })
    }

    fn lend(&self, builder: WorkerBuilder, kinds: &[String], lender: &Lender) -> WorkerBuilder {
        let (sealed, open): (Vec<_>, Vec<_>) =
            kinds.iter().partition(|kind| self.encrypted_kinds.contains(kind));
        builder.lend(open, lender).lend_encrypted(sealed, lender)
    }

    /// The same as a builder, which lends all its jobs but those of blocking kinds and of child processes.
    pub fn builder(&self, client: &windlass::Client, lender: &Lender) -> WorkerBuilder {
        let mut builder = windlass::Worker::builder(client);
        for (queue, concurrency) in &self.queues {
            builder = builder.queue(queue, *concurrency);
        }
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        let is_any =
            [&self.kinds, &self.blocking_kinds, &self.child_kinds].iter().all(|kinds| kinds.is_empty());
        builder = match is_any {
            true => builder.lend_any(lender),
            false => self.lend(builder, &self.kinds, lender),
        };
        let builder = match self.timeout {
            Some(timeout) => builder.timeout(timeout),
            None => builder,
        };
        let builder = match self.retry_policy {
            Some(policy) => builder.retry_policy(policy),
            None => builder,
        };
        let Self { lease, grace_period, .. } = *self;
        let builder = if self.strict { builder.settling(Settling::Strict) } else { builder };
        let builder = if self.accept_plain_args { builder.accept_plain_args() } else { builder };
        builder.configure(|config| {
            config.lease = lease.unwrap_or(config.lease);
            config.grace_period = grace_period.unwrap_or(config.grace_period);
        })
    }
}

/// A worker whose jobs are run by the caller, at one or several [desks](Desk).
#[derive(Debug)]
pub struct Worker {
    engine: Engine,
    inner: Arc<windlass::Worker>,
    lender: Lender,
    blocking: Lender,
    children: Lender,
}

impl Worker {
    /// Registers with the store and begins to take jobs.
    ///
    /// # Errors
    /// An option that cannot work, or the store's.
    pub fn start(client: &Client, spec: &WorkerSpec) -> Result<Self, Failure> {
        let engine = client.engine().clone();
        let (lender, blocking, children) = (Lender::new(), Lender::new(), Lender::new());
        let builder = spec.lend(spec.builder(&client.inner, &lender), &spec.blocking_kinds, &blocking);
        let builder = spec.lend(builder, &spec.child_kinds, &children);
        let inner = Arc::new(engine.run(builder.start())?);
        let (ended, closing) = (Arc::clone(&inner), [lender.clone(), blocking.clone(), children.clone()]);
        let wait = async move {
            ended.wait().await;
            Ok::<_, Failure>(())
        };
        engine.start(wait, move |_| closing.iter().for_each(Lender::close))?;
        Ok(Self { engine, inner, lender, blocking, children })
    }

    /// Makes a place where jobs are taken: one for each event loop, thread or process.
    ///
    /// # Errors
    /// In a forked child, which would run the jobs of its parent.
    pub fn desk(&self, bell: impl Bell) -> Result<Desk, Failure> {
        self.engine.check()?;
        Ok(Desk::new(&self.lender, bell))
    }

    /// The same for jobs of [blocking kinds](WorkerSpec::blocking_kinds): one for each thread.
    ///
    /// # Errors
    /// In a forked child.
    pub fn blocking_desk(&self, bell: impl Bell) -> Result<Desk, Failure> {
        self.engine.check()?;
        Ok(Desk::new(&self.blocking, bell))
    }

    /// The same for jobs of [kinds that child processes run](WorkerSpec::child_kinds): one for each process.
    ///
    /// # Errors
    /// In a forked child.
    pub fn child_desk(&self, bell: impl Bell) -> Result<Desk, Failure> {
        self.engine.check()?;
        Ok(Desk::new(&self.children, bell))
    }

    /// Begins a graceful shutdown.
    pub fn stop(&self) {
        self.inner.stop();
    }

    /// Hands running jobs back now.
    pub fn abort_now(&self) {
        self.inner.abort_now();
    }

    /// Waits for the worker's end, so long at most; whether it ended.
    ///
    /// # Errors
    /// In a forked child.
    pub fn wait(&self, most: Duration) -> Result<bool, Failure> {
        self.engine.run(async { Ok::<_, Failure>(timeout(most, self.inner.wait()).await.is_ok()) })
    }

    /// Calls back when it ended.
    ///
    /// # Errors
    /// In a forked child; nothing is called back then.
    pub fn start_wait(&self, done: impl FnOnce(Result<(), Failure>) + Send + 'static) -> Result<(), Failure> {
        let inner = Arc::clone(&self.inner);
        let wait = async move {
            inner.wait().await;
            Ok::<_, Failure>(())
        };
        self.engine.start(wait, done)
    }

    /// Calls back when nothing is available to it and nothing runs, for tests.
    ///
    /// # Errors
    /// In a forked child; nothing is called back then.
    pub fn start_until_idle(
        &self,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) -> Result<(), Failure> {
        let inner = Arc::clone(&self.inner);
        self.engine.start(async move { inner.until_idle().await }, done)
    }

    /// Waits until nothing is available to it and nothing runs, for tests.
    ///
    /// # Errors
    /// The store's.
    pub fn wait_until_idle(&self) -> Result<(), Failure> {
        self.engine.run(self.inner.until_idle())
    }

    /// What it did and holds.
    pub fn stats(&self) -> WorkerStats {
        self.inner.stats()
    }
}
