//! The process that makes a burden, and holds it until nothing can be read any more.

mod failures;
mod jobs;
mod runners;

use super::{
    burden::Burden,
    task::{Answer, Task},
};
use crate::child_process::{answer, lines};
use runners::Runners;
use std::time::Instant;
use windlass::Client;
use windlass_cli::failure::{Failure, Outcome};

/// What the process does.
pub(crate) async fn run() -> Outcome {
    match carry().await {
        Ok(()) => Ok(()),
        Err(failure) => answer(&Answer::Failed(failure.into_message())),
    }
}

async fn carry() -> Outcome {
    let mut lines = lines();
    let Some(task) = lines.recv().await else { return Ok(()) };
    let task: Task =
        serde_json::from_str(&task).map_err(|error| Failure::failed("internal", error.to_string()))?;
    let began = Instant::now();
    let runners = tokio::select! {
        made = make(&task) => made?,
        _ = lines.recv() => return Ok(()),
    };
    answer(&Answer::Ready { seconds: began.elapsed().as_secs_f64() })?;
    while lines.recv().await.is_some() {}
    runners.stop().await;
    Ok(())
}

/// Makes the burden as the product itself would: with the calls of a client, of a worker, or of an engine.
async fn make(task: &Task) -> Outcome<Runners> {
    let client = Client::connect(&task.url).await?;
    client.migrate().await?;
    let amount = task.amount;
    let mut runners = Runners::default();
    match task.burden {
        Burden::None => {}
        Burden::Queues => jobs::queues(&client, amount).await?,
        Burden::Waiting => jobs::waiting(&client, amount).await?,
        Burden::Scheduled => jobs::scheduled(&client, amount).await?,
        Burden::Bytes => jobs::bytes(&client, amount).await?,
        Burden::Paused => {
            jobs::waiting(&client, amount).await?;
            client.pause(Burden::QUEUE).await?;
        }
        Burden::Retryable => {
            jobs::waiting(&client, amount).await?;
            failures::fail_all(&client, amount).await?;
        }
        Burden::Workers => runners.idle(&client, amount).await?,
        Burden::Long => runners.long(&client, task).await?,
    }
    if runners.is_empty() {
        client.close().await;
    }
    Ok(runners)
}
