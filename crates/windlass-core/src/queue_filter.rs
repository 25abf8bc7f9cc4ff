//! Which queues are listed.

use crate::{Limits, Result};

/// Which queues [`JobStore::queues_by`](crate::JobStore::queues_by) lists: all, unless it says otherwise. Queues come by name, in the order of its
/// bytes, so that who has the last one of a page asks for those [behind it](Self::after).
///
/// What is left out is not counted: one queue among thousands costs what one queue costs.
///
/// ```
/// use windlass_core::QueueFilter;
///
/// let mail = QueueFilter::named("mail");
/// assert!(mail.matches("mail") && !mail.matches("mails"));
/// let page = QueueFilter { search: Some("MAIL".to_owned()), after: Some("mail".to_owned()), limit: Some(50), ..QueueFilter::default() };
/// assert!(page.matches("mails") && !page.matches("mail") && !page.matches("a mail"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFilter {
    /// The one with this name.
    pub name: Option<String>,
    /// Those with this in their name; letters A to Z also where they are written the other way.
    pub search: Option<String>,
    /// Those behind this name.
    pub after: Option<String>,
    /// So many at most, the first ones.
    pub limit: Option<u32>,
}

impl QueueFilter {
    /// One queue.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    /// Refuses names that no queue has; a store calls this first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`](crate::ErrorKind::InvalidOption).
    pub fn check(&self) -> Result<()> {
        Limits::check_no_nul("a queue", [&self.name, &self.search, &self.after].into_iter().flatten())
    }

    /// Whether a queue of this name is among them.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let has = |search: &String| name.to_ascii_lowercase().contains(&search.to_ascii_lowercase());
        self.name.as_ref().is_none_or(|only| only == name)
            && self.search.as_ref().is_none_or(has)
            && self.after.as_ref().is_none_or(|after| name > after.as_str())
    }
}
