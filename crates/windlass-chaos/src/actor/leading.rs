use async_trait::async_trait;
use std::{fs, path::PathBuf, sync::Arc, time::Duration};
use windlass::Store;
use windlass_core::{Leader, Result, WorkerId, wrap_store};

/// The file that says which process was last told that it leads, by its number.
pub(crate) const LEADER: &str = "leader";

/// A store whose leaders have a short term: another worker takes the lead while the one before believes that it still has it.
pub(super) struct Leading {
    pub(super) store: Arc<dyn Store>,
    pub(super) term: Duration,
    /// Where [`LEADER`] is.
    pub(super) folder: PathBuf,
    pub(super) number: u64,
}

wrap_store! {
    impl JobStore for Leading, through store but leadership:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history status ended ends events wakeup close]
}

#[async_trait]
impl Leader for Leading {
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        let leads = self.store.lead(worker, term.min(self.term)).await?;
        if leads {
            let new = self.folder.join(format!("{LEADER}.{}", self.number));
            let noted = fs::write(&new, self.number.to_string());
            noted
                .and_then(|()| fs::rename(&new, self.folder.join(LEADER)))
                .expect("the run's folder can be written");
        }
        Ok(leads)
    }

    async fn resign(&self, worker: WorkerId) -> Result<()> {
        self.store.resign(worker).await
    }
}
