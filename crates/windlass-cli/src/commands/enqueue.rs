mod input;
mod interrupt;
mod line;
mod many;
mod options;
mod unique;

pub(crate) use input::args;
pub(crate) use many::read as read_many;
pub(crate) use options::JobOptions;

use crate::{
    duration,
    failure::{Failure, Outcome},
    globals::Globals,
    open, time,
    traces::traced,
};
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;
use windlass::{Args, Conflict, EnqueuedOnce, EnqueuedUnique, Limits, NewJob};

/// What to enqueue.
#[derive(clap::Args)]
pub(crate) struct Enqueue {
    /// The job's kind
    #[arg(required_unless_present = "many")]
    kind: Option<String>,
    /// The job's args as JSON, or - to read them from stdin. Default: {}
    #[arg(value_name = "ARGS")]
    positional_args: Option<String>,
    /// The job's args as JSON, or - to read them from stdin
    #[arg(long, value_name = "JSON", conflicts_with = "positional_args")]
    args: Option<String>,
    /// A file with the job's args as JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["positional_args", "args"])]
    args_file: Option<String>,
    /// Encrypts the args with the first of the keys (--keys-file, WINDLASS_KEYS)
    #[arg(long)]
    encrypt: bool,
    /// The queue; created on first use
    #[arg(long, default_value = NewJob::DEFAULT_QUEUE)]
    queue: String,
    /// Lower runs first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i16,
    /// Waits this long first: 250ms, 5m, 1h30m, 2d
    #[arg(long, value_parser = duration::parse, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Waits for this time: 2031-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    at: Option<Timestamp>,
    /// How often the job is tried at most
    #[arg(long, default_value_t = NewJob::DEFAULT_MAX_ATTEMPTS)]
    max_attempts: u16,
    #[command(flatten)]
    options: Box<JobOptions>,
    /// Stores nothing when this key was used before, and prints what was stored then: makes the command safe to
    /// repeat, after a crash too. With --many every batch gets a key of its own, KEY/<number of its first line>
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    unique: unique::Options,
    /// Enqueues one job per line of a file (default: stdin), as JSON objects: kind, args, queue, priority,
    /// max_attempts, scheduled_at or delay_ms, expires_at or expires_in_ms, timeout_ms, retry_policy, key, meta, tags, cost; unique_key,
    /// unique_args or unique_fields, unique_in (kind, queue), unique_until (finished, started) or unique_for_ms, on_conflict, max_wait_ms
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        default_missing_value = "-",
        conflicts_with_all = ["kind", "positional_args", "args", "args_file", "encrypt", "queue", "priority", "delay", "at", "max_attempts", "timeout", "backoff", "expires_in", "expires_at", "key", "meta", "tags", "cost", "unique"]
    )]
    many: Option<String>,
}

impl Enqueue {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        if let Some(path) = &self.many {
            return many::run(globals, path, self.idempotency_key).await;
        }
        let key = self.idempotency_key.clone();
        key.as_deref().map_or(Ok(()), Limits::check_idempotency_key)?;
        if self.encrypt {
            globals.check_keys("--encrypt")?;
        }
        let job = self.job()?;
        let client = traced(globals.with_keys(open::create(globals.url()).await?)?);
        let Some(key) = key else {
            let answer = if job.unique().is_some() {
                let EnqueuedUnique { id, conflict } = client.enqueue_unique(job).await?;
                if !globals.json {
                    unique::tell(id, conflict);
                }
                json!({ "id": id, "conflict": conflict.map(Conflict::as_str) })
            } else {
                json!({ "id": client.enqueue(job).await? })
            };
            client.close().await;
            return done(globals.print(&answer, || answer["id"].to_string()), || {
                format!("job {}", answer["id"])
            });
        };
        let EnqueuedOnce { ids, repeated } = client.enqueue_many_once(&key, [job]).await?;
        client.close().await;
        let id = ids[0];
        done(globals.print(&json!({ "id": id, "repeated": repeated }), || id.to_string()), || {
            format!("job {id}")
        })
    }

    fn job(self) -> Outcome<NewJob> {
        let kind = self.kind.ok_or_else(|| Failure::usage("usage", "name the job's kind"))?;
        let read = |path: &str| Ok(Args::parse(&input::read_args(path)?)?);
        let args = match (self.positional_args.or(self.args), self.args_file) {
            (_, Some(path)) => read(&path),
            (Some(text), None) if text == "-" => read("-"),
            (Some(text), None) => args(&text),
            (None, None) => args("{}"),
        };
        let job = NewJob::new(kind, args?)
            .with_queue(self.queue)
            .with_priority(self.priority)
            .with_max_attempts(self.max_attempts);
        let job = self.options.apply(job);
        let job = if self.encrypt { job.with_encryption() } else { job };
        let job = match self.unique.description()? {
            Some(unique) => job.with_unique(unique),
            None => job,
        };
        Ok(match (self.delay, self.at) {
            (Some(delay), _) => job.with_delay(delay),
            (None, Some(at)) => job.with_scheduled_at(at),
            (None, None) => job,
        })
    }
}

/// Who reads that the answer cannot be printed, as on a full disk, would enqueue once more.
pub(crate) fn done(printed: Outcome, what: impl FnOnce() -> String) -> Outcome {
    printed.map_err(|failure| {
        failure.explain(|why| format!("{} is stored, but this cannot be printed: {why}", what()))
    })
}
