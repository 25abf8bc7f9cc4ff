use super::Run;
use anyhow::{Context as _, Result};
use std::{thread, time::Duration};
use windlass::Client;
use windlass_core::{QueueNeed, RateLimit, ShareRequest, WorkerSpec};

const QUEUE: &str = "default";
const LEASE: Duration = Duration::from_secs(30);

impl Run {
    /// Now that no worker is there any more: when a window without starts is over, all of a rate are to be had at once, whatever became of those who had them.
    pub(super) fn use_up(&mut self, rate: RateLimit) -> Result<()> {
        // What was given last counts for a little longer than the window.
        thread::sleep(rate.period + rate.grace() * 2);
        let store = self.setup.store.clone();
        let got = self.block_on(async {
            let client = Client::connect(&store).await?;
            let got = starts(&client, rate.count).await;
            client.close().await;
            got
        })?;
        self.note_admitted(rate.count as usize, got.unwrap_or_default() as usize);
        Ok(())
    }
}

/// What a worker of its own gets who asks for so many.
async fn starts(client: &Client, count: u32) -> Result<Option<u32>> {
    let spec = WorkerSpec {
        name: "last".to_owned(),
        queues: vec![QUEUE.to_owned()],
        kinds: vec![],
        lease: LEASE,
        program: Default::default(),
    };
    let worker = client.store().register(&spec).await?.worker;
    let need = QueueNeed { queue: QUEUE.into(), running: 0, slots: count, starts: count.into() };
    let request = ShareRequest { worker, generation: 0, queues: vec![need] };
    let share =
        client.store().share(&request).await?.into_iter().next().flatten().context("a share of the queue")?;
    client.store().deregister(worker).await?;
    Ok(share.starts)
}
