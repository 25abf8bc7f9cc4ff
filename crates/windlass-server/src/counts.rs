//! The counts of all queues, for what shows all of them.

use crate::kept::Kept;
use jiff::Timestamp;
use std::sync::Arc;
use windlass::{Client, QueueStats, Result};

/// All queues, as they were counted at a time.
pub(crate) struct Counted {
    pub(crate) at: Timestamp,
    pub(crate) queues: Vec<QueueStats>,
}

#[derive(Default)]
pub(crate) struct Counts(Kept<Counted>);

impl Counts {
    pub(crate) async fn all(&self, client: &Client) -> Result<Arc<Counted>> {
        let look = async {
            let at = Timestamp::now();
            Ok(Counted { at, queues: client.queues().await? })
        };
        self.0.or_look(look).await
    }
}
