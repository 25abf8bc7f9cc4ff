use super::{INJECTOR, Run};
use crate::{
    actor::{Act, Task},
    history::{What, now_ns},
    keys::{replaced_number, unique_key},
};
use anyhow::Result;
use windlass::{Args, Client, NewJob};

impl Run {
    /// Enqueues a job under each unique key, now that no job is there: the checker sees which keys are stuck.
    pub(super) fn take_every_key(&self) -> Result<()> {
        let store = self.setup.store.clone();
        self.block_on(async {
            let client = Client::connect(&store).await?;
            let replaced = (0..self.rules.replaced_keys).map(replaced_number);
            for unique in (0..self.rules.unique_keys).chain(replaced) {
                let key = (INJECTOR.cast_signed() << 40) | i64::from(unique);
                self.recorder
                    .note_all([What::EnqueueSent { key }, What::UniqueSent { key, unique: unique.into() }]);
                let args = Args::of(&Task { key, act: Act::Done })?;
                let job = NewJob::new("work", args).with_unique(unique_key(unique));
                let sent = now_ns();
                let stored = client.enqueue_unique(job).await?;
                self.recorder.note(match stored.conflict {
                    None => What::EnqueueAcked { key, id: stored.id.0 },
                    Some(_) => What::Kept { key, id: stored.id.0, sent },
                });
            }
            client.close().await;
            Ok(())
        })
    }
}
