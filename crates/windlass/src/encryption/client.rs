//! What a client seals and opens.

use super::{
    bound::Bound,
    codec::{BINDING, binding, left_plain, open},
};
use crate::{Client, IntoJob};
use serde::de::DeserializeOwned;
use std::{any::type_name, fmt::Display};
use windlass_core::{Args, Envelope, Error, ErrorKind, JobId, JobRecord, NewJob, OnConflict, Result};

impl Client {
    /// The same client with keys: it seals the args of [encrypted](crate::Job::ENCRYPTED) jobs, opens what it is asked for,
    /// and its workers open args and seal results. See the [`Keyring`](crate::Keyring).
    ///
    /// ```
    /// # use windlass::{Client, Job, Keyring};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// struct SendMail { to: String }
    ///
    /// impl Job for SendMail {
    ///     const KIND: &'static str = "mail.send";
    ///     const ENCRYPTED: bool = true;
    /// }
    ///
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let client = client.with_keyring(Keyring::new("k1", [7; 32])?);
    /// let id = client.enqueue(SendMail { to: "ada@example.com".into() }).await?;
    /// let stored = client.job(id).await?.unwrap();
    /// assert!(!stored.args.as_str().contains("ada"));
    /// assert_eq!(client.args::<SendMail>(id).await?.unwrap().to, "ada@example.com");
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn with_keyring(mut self, keyring: crate::Keyring) -> Self {
        self.keyring = Some(keyring);
        self
    }

    /// A job's args, opened when they are encrypted; `None` when there is no such job. [`Self::job`] and
    /// [`Self::jobs`] show encrypted args as they are stored.
    ///
    /// # Errors
    /// [`ErrorKind::Undecryptable`] without the key, or for what was changed; [`ErrorKind::InvalidArgs`] when the args
    /// are no `T`; or the store's.
    pub async fn args<T: DeserializeOwned>(&self, id: JobId) -> Result<Option<T>> {
        let Some(job) = self.store().job(id).await? else { return Ok(None) };
        self.read_args(&job).map(Some)
    }

    /// The args of a job, opened.
    pub(crate) fn read_args<T: DeserializeOwned>(&self, job: &JobRecord) -> Result<T> {
        let bound =
            Bound::Args { kind: &job.kind, binding: &binding(job.meta.as_ref()), key: job.key.as_deref() };
        self.read(&job.args, bound, format_args!("the args of job {}", job.id))
    }

    /// The result of a job, opened.
    pub(crate) fn read_result<T: DeserializeOwned>(&self, job: &JobRecord, result: &Args) -> Result<T> {
        self.read_of(job, result, Bound::Result { kind: &job.kind, job: job.id }, "result")
    }

    /// The last checkpoint of a job, opened.
    pub(crate) fn read_checkpoint<T: DeserializeOwned>(
        &self,
        job: &JobRecord,
        checkpoint: &Args,
    ) -> Result<T> {
        self.read_of(job, checkpoint, Bound::Checkpoint { kind: &job.kind, job: job.id }, "checkpoint")
    }

    /// What a handler of a job left: sealed, if the args are.
    fn read_of<T: DeserializeOwned>(
        &self,
        job: &JobRecord,
        left: &Args,
        bound: Bound<'_>,
        what: &str,
    ) -> Result<T> {
        let what = format!("the {what} of job {}", job.id);
        if Envelope::is_one(job.args.as_str().as_bytes()) && !Envelope::is_one(left.as_str().as_bytes()) {
            return Err(left_plain(what));
        }
        self.read(left, bound, what)
    }

    fn read<T: DeserializeOwned>(&self, stored: &Args, bound: Bound<'_>, what: impl Display) -> Result<T> {
        let json = stored.as_str();
        if !Envelope::is_one(json.as_bytes()) {
            return serde_json::from_str(json).map_err(|cause| {
                let message = format!("{what} cannot be read as {}: {cause}", type_name::<T>());
                Error::new(ErrorKind::InvalidArgs, message).with_source(cause)
            });
        }
        let opened = open(self.keyring.as_ref(), json, bound).map_err(|why| why.error(&what))?;
        serde_json::from_slice(&opened).map_err(|cause| {
            let wanted = type_name::<T>();
            let message = format!("{what} cannot be read as {wanted}: {}", without_content(&cause));
            Error::new(ErrorKind::InvalidArgs, message)
        })
    }

    /// The job as a store takes it, its args sealed if they have to be.
    pub(crate) fn new_job(&self, job: impl IntoJob) -> Result<NewJob> {
        let job = job.into_job()?;
        if job.needs_encryption() { self.seal(job) } else { Ok(job) }
    }

    fn seal(&self, job: NewJob) -> Result<NewJob> {
        let Some(keyring) = &self.keyring else {
            let message = format!(
                "jobs of kind {:?} are encrypted, and this client has no keys; give it some by with_keyring",
                job.kind()
            );
            return Err(Error::new(ErrorKind::InvalidOption, message));
        };
        // An envelope is another each time, and is bound to the meta of its own job.
        if let Some(unique) = job.unique()
            && (!unique.is_by_key() || matches!(unique.conflict_rule(), OnConflict::Replace { .. }))
        {
            let message = format!(
                "jobs of kind {:?} are encrypted, so they can be unique by a key that is given, not by their args, and a conflict cannot replace args",
                job.kind()
            );
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let binding = keyring.new_binding()?;
        let (key, meta) = job.attributes().map_or((None, None), |a| (a.key.as_deref(), a.meta.as_ref()));
        let meta = bind(meta, &binding)?;
        let bound = Bound::Args { kind: job.kind(), binding: &binding, key };
        let envelope = keyring.seal(job.args().as_str(), bound)?;
        Ok(job.with_envelope(envelope).with_meta(meta))
    }
}

/// Adds the binding to a job's meta, whose text stays as it is otherwise.
fn bind(meta: Option<&Args>, binding: &str) -> Result<Args> {
    let refused = |message: &str| Error::new(ErrorKind::InvalidArgs, message.to_owned());
    let empty = Args::parse("{}")?;
    let bound = meta.unwrap_or(&empty).with_member(BINDING, binding);
    let bound = bound.map_err(|_| refused("meta must be a JSON object"))?;
    bound
        .ok_or_else(|| refused("the field windlass.enc of meta is reserved for encrypted jobs; leave it out"))
}

/// Where JSON does not fit; the error's own words may quote it.
pub(crate) fn without_content(cause: &serde_json::Error) -> String {
    let (line, column) = (cause.line(), cause.column());
    format!("at line {line} column {column} (what is there is encrypted and not shown)")
}
