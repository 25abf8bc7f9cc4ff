use crate::{Failure, retry_policy::written};
use serde::{Deserialize, Deserializer};
use std::{collections::HashMap, time::Duration};
use windlass::{Error, ErrorKind, Program, RetryPolicy, Settling, WorkerBuilder, lend::Lender};

/// What a worker works. As JSON: its fields, and times with the suffix `_ms`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSpec {
    /// Queues, and how many jobs of each run at once. Empty: `default`, 10 at once.
    pub queues: Vec<(String, usize)>,
    /// The kinds that it can run, at [desks](crate::Worker::desk). Empty, and no blocking ones: any.
    pub kinds: Vec<String>,
    /// Further kinds, which are run elsewhere: at [desks of their own](crate::Worker::blocking_desk).
    pub blocking_kinds: Vec<String>,
    /// The same for kinds that are run in child processes: at [desks of their own](crate::Worker::child_desk), too.
    pub child_kinds: Vec<String>,
    /// Further kinds, whose jobs are run in batches, at [desks](crate::Worker::desk).
    pub batches: Vec<BatchSpec>,
    /// How long attempts of single kinds may take, and how long failed ones wait, of jobs that do not say themselves.
    pub rules: HashMap<String, KindRules>,
    /// Where jobs of all other kinds are run. Default: none are taken where kinds are named.
    pub any: Option<AnyKind>,
    /// Those of all its kinds whose jobs are encrypted: what is plain fails.
    pub encrypted_kinds: Vec<String>,
    /// Its name for people. Default: the host's and the process's.
    pub name: Option<String>,
    /// The program that it runs, for people. Default: the file of the process.
    pub program: Option<String>,
    /// The version of the application. Default: what the environment says.
    pub app_version: Option<String>,
    /// The language of its handlers. Default: Rust.
    pub language: Option<String>,
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

/// What holds for the jobs of a kind that say nothing themselves.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KindRules {
    /// How long an attempt may take.
    #[serde(rename = "timeout_ms", deserialize_with = "millis")]
    pub timeout: Option<Duration>,
    /// How long failed attempts wait.
    #[serde(deserialize_with = "written")]
    pub retry_policy: Option<RetryPolicy>,
}

/// Where jobs are run whose kind nobody named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnyKind {
    /// At [desks](crate::Worker::desk).
    Desk,
    /// At [those of blocking kinds](crate::Worker::blocking_desk).
    Blocking,
}

/// A kind whose jobs are run in batches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSpec {
    /// The kind.
    pub kind: String,
    /// How many jobs run at once at most.
    pub max_size: usize,
    /// How long the first of them waits for others. Default: not at all.
    #[serde(default, rename = "wait_ms", deserialize_with = "millis")]
    pub wait: Option<Duration>,
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
            let told = crate::place::told(json, &cause);
            Error::new(ErrorKind::InvalidOption, format!("the worker's options: {told}")).into()
        })
    }

    fn lend(&self, builder: WorkerBuilder, kinds: &[String], lender: &Lender) -> WorkerBuilder {
        let (sealed, open): (Vec<_>, Vec<_>) =
            kinds.iter().partition(|kind| self.encrypted_kinds.contains(kind));
        builder.lend(open, lender).lend_encrypted(sealed, lender)
    }

    fn lend_batches(&self, builder: WorkerBuilder, lender: &Lender) -> WorkerBuilder {
        self.batches.iter().fold(builder, |builder, BatchSpec { kind, max_size, wait }| {
            let wait = wait.unwrap_or_default();
            match self.encrypted_kinds.contains(kind) {
                false => builder.lend_batch(kind, *max_size, wait, lender),
                true => builder.lend_encrypted_batch(kind, *max_size, wait, lender),
            }
        })
    }

    fn ruled(&self, builder: WorkerBuilder) -> WorkerBuilder {
        self.rules.iter().fold(builder, |builder, (kind, rules)| {
            let builder = match rules.timeout {
                Some(timeout) => builder.timeout_of(kind, timeout),
                None => builder,
            };
            match rules.retry_policy {
                Some(policy) => builder.retry_policy_of(kind, policy),
                None => builder,
            }
        })
    }

    fn lend_any(&self, builder: WorkerBuilder, desk: &Lender, blocking: &Lender) -> WorkerBuilder {
        let named = [&self.kinds, &self.blocking_kinds, &self.child_kinds];
        let names_none = self.batches.is_empty() && named.iter().all(|kinds| kinds.is_empty());
        match self.any.or(names_none.then_some(AnyKind::Desk)) {
            Some(AnyKind::Desk) => builder.lend_any(desk),
            Some(AnyKind::Blocking) => builder.lend_any(blocking),
            None => builder,
        }
    }

    /// What people are told of it.
    fn says(&self, builder: WorkerBuilder) -> WorkerBuilder {
        builder.configure(|config| {
            let language = self.language.as_ref().map(|name| format!("{name} {}", env!("CARGO_PKG_VERSION")));
            let known = std::mem::take(&mut config.program);
            config.program = Program {
                name: self.program.clone().or(known.name),
                app_version: self.app_version.clone().or(known.app_version),
                engine: language.or(known.engine),
            };
        })
    }

    /// The same as a builder, which lends its jobs.
    pub(crate) fn builder(&self, client: &windlass::Client, to: &Lenders) -> WorkerBuilder {
        let mut builder = windlass::Worker::builder(client);
        for (queue, concurrency) in &self.queues {
            builder = builder.queue(queue, *concurrency);
        }
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        builder = self.says(builder);
        builder = self.lend_any(builder, &to.desk, &to.blocking);
        builder = self.lend_batches(self.lend(builder, &self.kinds, &to.desk), &to.desk);
        builder = self.lend(builder, &self.blocking_kinds, &to.blocking);
        builder = self.ruled(self.lend(builder, &self.child_kinds, &to.children));
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

/// Who runs its jobs: event loops, threads, and child processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lenders {
    pub(crate) desk: Lender,
    pub(crate) blocking: Lender,
    pub(crate) children: Lender,
}

impl Lenders {
    pub(crate) fn close(&self) {
        [&self.desk, &self.blocking, &self.children].into_iter().for_each(Lender::close);
    }
}
