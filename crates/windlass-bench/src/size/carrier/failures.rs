//! Jobs that failed: claimed and settled with the calls of an engine, without handlers that would have to run.

use super::jobs::due_in;
use crate::size::burden::Burden;
use std::time::Duration;
use windlass::{Client, WorkerId};
use windlass_cli::failure::{Failure, Outcome};
use windlass_core::{
    Claim, ClaimRequest, Disposition, Exception, QueueDemand, SettleRequest, Settled, WorkerSpec,
};

/// How many jobs one call claims, and one settles.
const BATCH: u32 = 5_000;
/// So many calls are between two heartbeats: what was claimed since the last is looked at when the worker goes.
const HEARTBEAT_EVERY: u64 = 20;
/// Longer than the time between two.
const LEASE: Duration = Duration::from_secs(3_600);

/// Lets every job of the queue fail once. They are to be tried again in the course of a day.
pub(super) async fn fail_all(client: &Client, amount: u64) -> Outcome {
    let store = client.store();
    let spec = WorkerSpec {
        name: "windlass-bench".to_owned(),
        queues: vec![Burden::QUEUE.to_owned()],
        kinds: Vec::new(),
        lease: LEASE,
        program: Default::default(),
    };
    let worker = store.register(&spec).await?.worker;
    let request = ClaimRequest { worker, queues: vec![QueueDemand::new(Burden::QUEUE, BATCH)] };
    let (mut failed, mut calls) = (0, 0_u64);
    while failed < amount {
        let claimed = store.claim(&request).await?;
        if claimed.claims.is_empty() && !claimed.contended {
            let message = format!("only {failed} of {amount} jobs are there to fail");
            return Err(Failure::failed("internal", message));
        }
        let settlement = failures(worker, &claimed.claims, failed, amount);
        failed += settlement.exceptions.len() as u64;
        let reply = store.settle(&settlement).await?;
        if reply.exceptions.iter().any(|settled| *settled != Settled::Accepted) {
            return Err(Failure::failed("internal", "a failure was not accepted"));
        }
        calls += 1;
        if calls % HEARTBEAT_EVERY == 0 {
            store.heartbeat(worker).await?;
        }
    }
    store.heartbeat(worker).await?;
    store.deregister(worker).await?;
    Ok(())
}

fn failures(worker: WorkerId, claims: &[Claim], before: u64, amount: u64) -> SettleRequest {
    let jobs = claims.iter().flat_map(|claim| claim.jobs.iter().map(move |job| (claim, job)));
    let exceptions = jobs.zip(before..).map(|((claim, job), number)| Exception {
        claim: claim.reference,
        job: job.id,
        position: job.position,
        disposition: Disposition::Retry {
            delay: due_in(number, amount),
            error: format!(
                "cannot reach mail.example.com:25 for message {number}: connection refused (os error 111)"
            ),
        },
    });
    SettleRequest { worker, completions: Vec::new(), exceptions: exceptions.collect() }
}
