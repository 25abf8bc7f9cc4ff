use super::{burden::Burden, place::Place};
use crate::{jobs::Parcel, meter::forget_peak_memory};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass::{Client, Context, JobId, Worker};
use windlass_cli::{
    failure::Outcome,
    measure::{CountedWorkers, Expected, peak_memory, per_second},
};

/// Works the large jobs themselves: how fast, and with how much memory.
pub(crate) async fn unload(place: &Place, jobs: u64, concurrency: usize) -> Outcome<Value> {
    let client = Client::connect(&place.url).await?;
    forget_peak_memory();
    let expected = Expected { jobs, first: JobId(0) };
    let (workers, _starts) =
        CountedWorkers::start(std::slice::from_ref(&client), expected, |client, counts| {
            let counts = Arc::clone(counts);
            Worker::builder(client).queue(Burden::QUEUE, concurrency).handle(
                move |job: Parcel, context: Context| {
                    std::hint::black_box(&job.text);
                    counts.job(context.id(), job.id);
                    async {}
                },
            )
        })
        .await?;
    let took = workers.finish(|_| {}).await?;
    workers.verify()?;
    let figures = json!({ "per_second": per_second(jobs, took), "peak_memory_bytes": peak_memory() });
    workers.stop().await;
    client.close().await;
    Ok(figures)
}
