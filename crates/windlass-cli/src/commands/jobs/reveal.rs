use super::show;
use crate::{failure::Outcome, globals::Globals};
use serde_json::value::RawValue;
use windlass::{Args, Client, Envelope, Error, JobId, JobRecord};

/// Shows a job with what is encrypted of it open, and notes that somebody looked: before it is shown, so that nothing is that was not noted.
pub(super) async fn run(globals: &Globals, client: &Client, id: JobId) -> Outcome {
    let mut job = show::known(client, id).await?;
    opened(client, &mut job).await?;
    client.append_audit(&[globals.entry("jobs.reveal", &format!("/jobs/{id}"))]).await?;
    show::print(globals, &job)
}

async fn opened(client: &Client, job: &mut JobRecord) -> Result<(), Error> {
    let text = |raw: Option<Box<RawValue>>| raw.map(|raw| Args::parse(raw.get())).transpose();
    if is_sealed(&job.args)
        && let Some(args) = text(client.args(job.id).await?)?
    {
        job.args = args;
    }
    if job.result.as_ref().is_some_and(is_sealed) {
        job.result = text(client.result(job.id).await?)?;
    }
    if let Some(report) =
        job.report.as_mut().filter(|report| report.checkpoint.as_ref().is_some_and(is_sealed))
    {
        report.checkpoint = text(client.checkpoint(job.id).await?)?;
    }
    Ok(())
}

fn is_sealed(json: &Args) -> bool {
    Envelope::is_one(json.as_str().as_bytes())
}
