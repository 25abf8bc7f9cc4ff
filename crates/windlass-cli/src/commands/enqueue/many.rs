use super::{done, input, interrupt::Interrupt, line::parse};
use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    open,
    progress::Progress as Bar,
    traces::traced,
};
use serde_json::json;
use std::{
    cell::{Cell, RefCell},
    io::BufRead,
};
use windlass::{Client, Conflict, EnqueuedOnce, ErrorKind, JobId, Limits, NewJob};

/// How many jobs are enqueued in one transaction. Where a batch ends follows from the input alone: a batch is
/// known again by its first line and its size, so a change of these two splits repeated inputs differently,
/// which a store refuses.
const BATCH: usize = 5_000;
/// How many bytes of lines a batch may hold in memory before it is sent.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// How far the input was enqueued: every batch is stored whole or not at all.
#[derive(Default)]
struct Progress {
    enqueued: u64,
    /// How many more an earlier run had stored under the same keys.
    repeated: u64,
    /// How many unique ones found their key taken, and what became of these.
    kept: u64,
    replaced: u64,
    first: Option<JobId>,
    last: Option<JobId>,
    /// Who may want it to end before.
    interrupt: Interrupt,
}

/// Enqueues one job per line, in batches; each at most once when there is a key.
pub(super) async fn run(globals: &Globals, path: &str, key: Option<String>) -> Outcome {
    if let Some(key) = &key {
        check_key(key)?;
    }
    let mut lines = input::open(path)?;
    let client = traced(globals.with_keys(open::create(globals.url()).await?)?);
    let interrupt = Interrupt::listen(key.is_some(), globals.json)?;
    let mut progress = Progress { interrupt, ..Progress::default() };
    let target = Target { client: &client, key: key.as_deref() };
    let (bar, read) = (RefCell::new(Bar::new("enqueued", 0, globals.json)), Cell::new(0));
    let store = async |batch: Vec<NewJob>, first_line: u64| {
        read.set(read.get() + batch.len() as u64);
        let stored = target.store(batch, first_line).await?;
        bar.borrow_mut().reach(read.get());
        Ok(stored)
    };
    let copied = copy(&mut *lines, &store, key.is_some(), &mut progress).await;
    drop(bar);
    copied?;
    client.close().await;
    let Progress { enqueued, repeated, kept, replaced, first, last, interrupt: _ } = progress;
    let mut answer = json!({ "enqueued": enqueued, "first_id": first, "last_id": last });
    let mut text = format!("enqueued {enqueued} jobs");
    if kept + replaced > 0 {
        answer["kept"] = kept.into();
        answer["replaced"] = replaced.into();
        text += &format!("; the unique keys of others were taken: {kept} kept, {replaced} replaced");
    } else if key.is_some() {
        answer["repeated"] = repeated.into();
        text += &format!(", {repeated} were stored before");
    }
    done(globals.print(&answer, || text), || "all of the input".to_owned())
}

/// Refuses before the first line a key that would be too long behind some later one.
fn check_key(key: &str) -> Outcome {
    let most = Limits::MAX_IDEMPOTENCY_KEY_BYTES - batch_key("", u64::MAX).len();
    if key.len() > most {
        let message = format!(
            "an idempotency key for --many must be 1 to {most} bytes, got {}: line numbers come behind it",
            key.len()
        );
        return Err(Failure::usage("invalid_option", message));
    }
    Ok(Limits::check_idempotency_key(key)?)
}

/// The key of the batch that begins with this line.
fn batch_key(key: &str, line: u64) -> String {
    format!("{key}/{line}")
}

/// Where batches go.
struct Target<'a> {
    client: &'a Client,
    key: Option<&'a str>,
}

impl Target<'_> {
    async fn store(&self, batch: Vec<NewJob>, first_line: u64) -> windlass::Result<Stored> {
        if let Some(key) = self.key {
            return Ok(self.client.enqueue_many_once(&batch_key(key, first_line), batch).await?.into());
        }
        if batch.iter().all(|job| job.unique().is_none()) {
            return Ok(EnqueuedOnce { ids: self.client.enqueue_many(batch).await?, repeated: false }.into());
        }
        let mut stored = Stored::default();
        for one in self.client.enqueue_many_unique(batch).await? {
            stored.ids.push(one.id);
            match one.conflict {
                None => {}
                Some(Conflict::Replaced) => stored.replaced += 1,
                Some(_) => stored.kept += 1,
            }
        }
        Ok(stored)
    }
}

/// What became of a batch.
#[derive(Default)]
pub(crate) struct Stored {
    ids: Vec<JobId>,
    repeated: bool,
    /// How many found that another job has their unique key, and how many took its place.
    kept: u64,
    replaced: u64,
}

impl From<EnqueuedOnce> for Stored {
    fn from(EnqueuedOnce { ids, repeated }: EnqueuedOnce) -> Self {
        Self { ids, repeated, ..Self::default() }
    }
}

/// What stores a batch that begins with this line.
pub(crate) trait Store: AsyncFn(Vec<NewJob>, u64) -> windlass::Result<Stored> {}

impl<F: AsyncFn(Vec<NewJob>, u64) -> windlass::Result<Stored>> Store for F {}

/// Reads `input` as `enqueue --many` does, for the fuzz target of lines: every batch goes to `store` with the
/// number of its first line. How many jobs it took, or the line and the message that it stopped with.
pub(crate) async fn read<F>(input: &mut dyn BufRead, store: &F) -> Result<u64, (Option<u64>, String)>
where
    F: AsyncFn(Vec<NewJob>, u64) -> windlass::Result<EnqueuedOnce>,
{
    let mut progress = Progress::default();
    let store = async |batch: Vec<NewJob>, first_line: u64| Ok(store(batch, first_line).await?.into());
    match copy(input, &store, false, &mut progress).await {
        Ok(()) => Ok(progress.enqueued),
        Err(failure) => Err(failure.at_line()),
    }
}

async fn copy(
    input: &mut dyn BufRead,
    store: &impl Store,
    has_key: bool,
    progress: &mut Progress,
) -> Outcome {
    let (mut line, mut number) = (Vec::new(), 0_u64);
    let (mut batch, mut bytes) = (Batch { first_line: 1, ..Batch::default() }, 0);
    loop {
        number += 1;
        let at_line = |failure: Failure| stopped(failure, &format!("line {number}"), number, progress);
        let ended = input::next_line(input, &mut line).map_err(at_line)?.is_none();
        if !ended && !line.trim_ascii().is_empty() {
            let job = parse(&line).and_then(|job| refuse_two_keys(job, has_key)).map_err(at_line)?;
            batch.jobs.push(job);
            batch.lines.push(number);
            bytes += line.len();
        }
        if ended || batch.jobs.len() == BATCH || bytes >= BATCH_BYTES {
            batch.last_line = number - u64::from(ended);
            send(store, batch, progress).await?;
            let wanted = progress.interrupt.stored(progress.enqueued + progress.repeated);
            // At the end of the input there is nothing more to end.
            if !ended {
                wanted?;
            }
            (batch, bytes) = (Batch { first_line: number + 1, ..Batch::default() }, 0);
        }
        if ended {
            return Ok(());
        }
    }
}

/// So that the error names the line and not the batch.
fn refuse_two_keys(job: NewJob, has_key: bool) -> Outcome<NewJob> {
    match has_key && job.unique().is_some() {
        true => {
            let message = "a unique job takes no idempotency key: leave --idempotency-key out, a repeated line finds the job by its own key";
            Err(Failure::usage("invalid_option", message))
        }
        false => Ok(job),
    }
}

/// The jobs of some lines, and the line of each.
#[derive(Default)]
struct Batch {
    jobs: Vec<NewJob>,
    lines: Vec<u64>,
    first_line: u64,
    last_line: u64,
}

async fn send(store: &impl Store, batch: Batch, progress: &mut Progress) -> Outcome {
    let Batch { jobs, lines, first_line, last_line } = batch;
    if jobs.is_empty() {
        return Ok(());
    }
    progress.interrupt.begin(first_line, last_line);
    let lines_of_batch = format!("lines {first_line} to {last_line}");
    let Stored { ids, repeated, kept, replaced } =
        store(jobs, first_line).await.map_err(|error| match line_of(&error, &lines) {
            Some(line) => {
                let message = format!("{}; nothing of {lines_of_batch} was enqueued", error.reason());
                stopped(Failure::from(error).explain(|_| message), &format!("line {line}"), line, progress)
            }
            None => stopped(error.into(), &lines_of_batch, first_line, progress),
        })?;
    let count = if repeated { &mut progress.repeated } else { &mut progress.enqueued };
    *count += ids.len() as u64 - kept - replaced;
    progress.kept += kept;
    progress.replaced += replaced;
    progress.first = progress.first.or(ids.first().copied());
    progress.last = ids.last().copied();
    Ok(())
}

/// The line of the job that the error is about.
fn line_of(error: &windlass::Error, lines: &[u64]) -> Option<u64> {
    match (error.job_index(), lines) {
        (Some(index), _) => lines.get(index).copied(),
        (None, [line]) if error.kind() == ErrorKind::UniqueConflict => Some(*line),
        _ => None,
    }
}

/// Says where the input stopped, and what was enqueued before: all of it is stored, and no more.
fn stopped(failure: Failure, at: &str, line: u64, progress: &Progress) -> Failure {
    let Progress { enqueued, repeated, .. } = *progress;
    let earlier = match repeated {
        0 => String::new(),
        _ => format!(", {repeated} more by an earlier run"),
    };
    failure
        .explain(|message| {
            format!("{at}: {message}; {enqueued} jobs were enqueued before{earlier}, in whole batches")
        })
        .with("line", line)
        .with("enqueued", enqueued)
        .with("repeated", repeated)
}
