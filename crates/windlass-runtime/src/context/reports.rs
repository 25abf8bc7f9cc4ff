//! What a handler says of its job while it runs.

use super::Context;
use crate::{
    job_reporter::{JobReporter, too_late},
    outbox::told,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{any::type_name, fmt, sync::Arc};
use windlass_core::{Args, Error, ErrorKind, Limits, Progress, Result};

/// Seals the checkpoints of jobs before they are stored, and opens what an earlier attempt left.
pub trait CheckpointSeal: Send + Sync + 'static {
    /// What is stored.
    ///
    /// # Errors
    /// When there is nothing to seal it with.
    fn seal(&self, plain: &Args, context: &Context) -> Result<Args>;

    /// The JSON text of what is stored.
    ///
    /// # Errors
    /// When it does not open.
    fn open(&self, stored: &Args, context: &Context) -> Result<Vec<u8>>;
}

/// How a context deals with checkpoints; nothing for jobs that are not encrypted.
#[derive(Clone, Default)]
pub(super) struct Seal(Option<Arc<dyn CheckpointSeal>>);

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Sealed" } else { "Plain" })
    }
}

impl Context {
    /// Says how far the job is: a number from 0 to 100, or [with a note](Progress). The last one said is what
    /// `client.job(id)` shows, half a second later at most, for as long as the job is kept. Costs no call of the store;
    /// call it as often as you like.
    ///
    /// ```
    /// # use windlass_runtime::Context;
    /// # fn handler(ctx: &Context) -> windlass_core::Result<()> {
    /// for page in 0..10 {
    ///     ctx.progress((f64::from(page) * 10.0, format!("page {page} of 10")))?;
    /// }
    /// ctx.progress(100.0)
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for a number beyond 0 to 100 and a note beyond [`Limits::MAX_NOTE_BYTES`].
    pub fn progress(&self, progress: impl Into<Progress>) -> Result<()> {
        let progress = progress.into();
        progress.check()?;
        let reporter = self.reporter();
        if reporter.say(false, |unsent| unsent.progress = Some(progress)).0 {
            self.scope.epoch.outbox().list(reporter);
        }
        Ok(())
    }

    /// Adds a line to the job's log, which `client.job(id)` shows, half a second later at most, for as long as the job is kept.
    /// The newest [`Limits::MAX_LOG_LINES`] of all attempts are kept, and of these [`Limits::MAX_LOG_BYTES`]; how many others
    /// there were is shown. A line of more than [`Limits::MAX_LOG_LINE_BYTES`] is cut and says so. Costs no call of the store.
    ///
    /// ```
    /// # use windlass_runtime::Context;
    /// # fn handler(ctx: &Context) {
    /// ctx.log("the relay asks for patience");
    /// ctx.log(format!("attempt {} of {}", ctx.attempt(), ctx.max_attempts()));
    /// # }
    /// ```
    pub fn log(&self, line: impl AsRef<str>) {
        let reporter = self.reporter();
        if reporter.say(false, |unsent| unsent.log(line.as_ref())).0 {
            self.scope.epoch.outbox().list(reporter);
        }
    }

    /// Keeps a value for the next attempt, in place of the one before. When this returns the store has it: whatever happens
    /// now, a crash of this worker included, [`Self::last_checkpoint`] gives it to whoever works the job next. Jobs that
    /// keep checkpoints at the same time share a call.
    ///
    /// ```
    /// # use windlass_runtime::Context;
    /// # async fn send(_: u32) {}
    /// # async fn handler(ctx: &Context) -> windlass_core::Result<()> {
    /// let done = ctx.last_checkpoint::<u32>().await?.unwrap_or(0);
    /// for part in done..100 {
    ///     send(part).await;
    ///     ctx.checkpoint(&(part + 1)).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`] for what does not serialise or has more than [`Limits::MAX_CHECKPOINT_BYTES`];
    /// [`ErrorKind::LeaseLost`] when the job is not this worker's any more: stop, somebody else works on it;
    /// [`ErrorKind::SchemaTooOld`] when the store has yet to be migrated. While the store cannot be reached it waits.
    pub async fn checkpoint<T: Serialize + Sync + ?Sized>(&self, value: &T) -> Result<()> {
        let plain = Args::of(value).map_err(|cause| {
            Error::new(cause.kind(), format!("the checkpoint cannot be kept: {cause}")).with_source(cause)
        })?;
        let checkpoint = match &self.seal.0 {
            Some(seal) => seal.seal(&plain, self)?,
            None => plain,
        };
        Limits::check_checkpoint(&checkpoint)?;
        let reporter = self.reporter();
        let (list, stored) = reporter.say(true, |unsent| unsent.checkpoint = Some(checkpoint));
        let outbox = self.scope.epoch.outbox();
        if list {
            outbox.list(reporter);
        }
        outbox.hurry();
        let Some(stored) = stored else { return Err(too_late(self.id)) };
        told(self.id, stored).await
    }

    /// The last [checkpoint](Self::checkpoint) of the job: of this attempt, of one before, or of one whose worker died. `None`
    /// when there is none. Asks the store each time.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`] when what is there is no `T`; [`ErrorKind::Undecryptable`] when it is encrypted and does not
    /// open; or the store's.
    pub async fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let stored = self.scope.epoch.outbox().destination().checkpoint(self.id).await?;
        let Some(stored) = stored else { return Ok(None) };
        let unfit = |what: String| {
            let message = format!("the checkpoint of job {} is no {}: {what}", self.id, type_name::<T>());
            Error::new(ErrorKind::InvalidArgs, message)
        };
        match &self.seal.0 {
            None => serde_json::from_str(stored.as_str()).map(Some).map_err(|cause| unfit(cause.to_string())),
            Some(seal) => serde_json::from_slice(&seal.open(&stored, self)?).map(Some).map_err(|cause| {
                // The error's own words may quote it.
                unfit(format!("at line {} column {}", cause.line(), cause.column()))
            }),
        }
    }

    /// The same context, whose checkpoints are sealed.
    #[must_use]
    pub fn with_sealed_checkpoints(mut self, seal: Arc<dyn CheckpointSeal>) -> Self {
        self.seal = Seal(Some(seal));
        self
    }

    fn reporter(&self) -> &Arc<JobReporter> {
        self.reporter.get_or_init(|| self.scope.reporter(self.id, self.position, self.attempt))
    }
}
