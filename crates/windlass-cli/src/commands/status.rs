use super::queues::{self, Listed};
use crate::{failure::Outcome, globals::Globals, open, table::table, text::escape};
use indicatif::HumanBytes;
use serde::Serialize;
use windlass::{Program, StoreStatus, WorkerRecord, redact_url};

/// How many queues of a worker a line names.
const MOST_QUEUES: usize = 5;

/// Shows the store, its workers and its queues.
pub(crate) async fn run(globals: &Globals) -> Outcome {
    let client = open::existing(globals.url()).await?;
    let status = client.status().await?;
    let queues = Listed::of(&client, client.queues().await?).await?;
    client.close().await;
    let shown = Shown { status, queues };
    globals.print(&shown, || text(globals.url(), &shown.status, &shown.queues))
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    status: StoreStatus,
    queues: Vec<Listed>,
}

fn text(url: &str, status: &StoreStatus, queues: &[Listed]) -> String {
    let live = status.workers.iter().filter(|worker| worker.live).count();
    format!(
        "store    {} ({})\nschema   version {}\nsize     {}\nworkers  {live} live{}\n\n{}\n{}",
        escape(&status.store),
        escape(&redact_url(url)),
        status.schema_version,
        HumanBytes(status.size_bytes),
        among(status),
        workers(&status.workers),
        queues::text(queues),
    )
}

/// What the number of live workers is of, where not all are listed.
fn among(status: &StoreStatus) -> String {
    if status.more_workers {
        format!(" of the {} that are listed; there are more", status.workers.len())
    } else {
        String::new()
    }
}

pub(crate) fn workers(workers: &[WorkerRecord]) -> String {
    if workers.is_empty() {
        return "no workers\n".to_owned();
    }
    let row = |worker: &WorkerRecord| {
        vec![
            worker.id.to_string(),
            escape(&worker.name),
            worker.state().to_owned(),
            escape(&program(&worker.program)),
            worker.heartbeat_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            worker.load.jobs_per_second.map_or_else(none, |rate| format!("{rate:.1}")),
            worker.load.memory_bytes.map_or_else(none, |bytes| HumanBytes(bytes).to_string()),
            escape(&first_queues(&worker.queues)),
        ]
    };
    let rows: Vec<_> = workers.iter().map(row).collect();
    table(&[">WORKER", "NAME", "STATE", "PROGRAM", "HEARTBEAT", ">JOBS/S", ">MEMORY", "QUEUES"], &rows)
}

/// The first of them, and how many there are besides: a worker may have a thousand.
fn first_queues(queues: &[String]) -> String {
    match queues.split_at_checked(MOST_QUEUES) {
        Some((first, more)) if !more.is_empty() => format!("{} and {} more", first.join(", "), more.len()),
        _ => queues.join(", "),
    }
}

/// What a worker runs: `shop 2.4.1 (Rust 0.1.0)`, of which it may know a part.
fn program(program: &Program) -> String {
    let Program { name, app_version, engine } = program;
    // By itself it might be taken for that of the engine.
    let version = app_version.as_ref().map(|version| match name {
        Some(_) => version.clone(),
        None => format!("version {version}"),
    });
    let engine = engine.as_ref().map(|engine| format!("({engine})"));
    let known: Vec<_> = [name, &version, &engine].into_iter().flatten().map(String::as_str).collect();
    if known.is_empty() { none() } else { known.join(" ") }
}

fn none() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_program_is_told() {
        let told = |name: Option<&str>, version: Option<&str>| {
            let engine = Some("HTTP 0.1.0".to_owned());
            let (name, app_version) = (name.map(str::to_owned), version.map(str::to_owned));
            program(&Program { name, app_version, engine })
        };
        assert_eq!(told(Some("shop"), Some("1.2")), "shop 1.2 (HTTP 0.1.0)");
        assert_eq!(told(None, Some("1.2")), "version 1.2 (HTTP 0.1.0)");
        assert_eq!(told(None, None), "(HTTP 0.1.0)");
        assert_eq!(program(&Program::default()), "-");
    }
}
