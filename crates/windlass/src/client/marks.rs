//! Marks: when something happened beside the jobs, as a deploy.

use crate::Client;
use jiff::Timestamp;
use serde::Serialize;
use std::time::Duration;
use windlass_core::{AuditEntry, AuditFilter, Error, ErrorKind, HistoryRequest, Result};

/// The action of a mark in the audit log.
const ACTION: &str = "mark";
/// The longest label, in characters.
const LONGEST: usize = 100;
/// The most that one call reads.
const MOST: u32 = 1_000;

/// Something that happened: a line in the charts, so that they show what changed by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Mark {
    /// When, by the store's clock.
    pub at: Timestamp,
    /// What, as a version.
    pub label: String,
    /// Who said so.
    pub actor: String,
}

impl Client {
    /// Marks this moment, as a deploy does: the dashboard draws it into its charts. It is an entry of the [audit log](Self::audit), and kept as long.
    ///
    /// ```
    /// # use windlass::{AuditEntry, Client};
    /// # use std::time::Duration;
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// client.mark("release 4f2a9c1", "ci").await?;
    /// assert_eq!(client.marks(Duration::from_secs(3600)).await?[0].label, "release 4f2a9c1");
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`InvalidOption`](ErrorKind::InvalidOption) for a label that is empty, longer than 100 characters or of several lines, or the store's.
    pub async fn mark(&self, label: &str, actor: &str) -> Result<()> {
        let entry = AuditEntry::new(actor, ACTION, label);
        self.mark_as(entry).await
    }

    /// The same, with more of who says so; the label is the entry's target.
    #[doc(hidden)] // the server and the command line know more of the actor
    pub async fn mark_as(&self, mut entry: AuditEntry) -> Result<()> {
        entry.target = checked(&entry.target)?;
        ACTION.clone_into(&mut entry.action);
        self.append_audit(&[entry]).await
    }

    /// The marks of the time up to now, the newest first, 1,000 at most.
    ///
    /// # Errors
    /// [`InvalidOption`](ErrorKind::InvalidOption) for no time or more than 30 days, or the store's.
    pub async fn marks(&self, last: Duration) -> Result<Vec<Mark>> {
        HistoryRequest::last(last).check()?;
        let since = Timestamp::now().checked_sub(last).unwrap_or(Timestamp::UNIX_EPOCH);
        let mut filter = AuditFilter {
            action: Some(ACTION.into()),
            since: Some(since),
            limit: MOST,
            ..AuditFilter::default()
        };
        let mut marks = Vec::new();
        loop {
            let page = self.audit(&filter).await?;
            marks.extend(page.entries.into_iter().map(|record| Mark {
                at: record.at,
                label: record.entry.target,
                actor: record.entry.actor,
            }));
            filter.before = page.next;
            if filter.before.is_none() || marks.len() >= MOST as usize {
                marks.truncate(MOST as usize);
                return Ok(marks);
            }
        }
    }
}

fn checked(label: &str) -> Result<String> {
    let label = label.trim();
    let length = label.chars().count();
    let problem = match length {
        0 => "is empty".to_owned(),
        _ if length > LONGEST => format!("has {length} characters, {LONGEST} are allowed"),
        _ if label.contains(char::is_control) => "has a line break or another control character".to_owned(),
        _ => return Ok(label.to_owned()),
    };
    let message = format!("the label of a mark {problem}; say what happened in a few words, as a version");
    Err(Error::new(ErrorKind::InvalidOption, message))
}
