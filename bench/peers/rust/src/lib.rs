//! Scenarios that each queue runs the same way: how the jobs are enqueued, worked, counted and verified is here,
//! what is special to a system is in its program in `src/bin`.

mod children;
mod drain;
mod enqueue;
mod latency;
mod mixed;
mod outcome;
mod settings;
mod system;
mod tally;

pub use settings::{Command, Settings};
pub use system::{Job, Producer, System, Worker};
pub use tally::Tally;

use anyhow::{Context as _, bail};
use std::process::ExitCode;

/// Runs the command of the program's arguments with a system: a scenario, or a worker process of one.
pub fn run<S: System>() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.context("cannot start threads").and_then(|runtime| {
        let outcome = runtime.block_on(scenario::<S>());
        // A system may leave tasks that never end: they must not keep the process.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error:#}", S::PACKAGE);
            ExitCode::FAILURE
        }
    }
}

async fn scenario<S: System>() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, is_child) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name] => (name, false),
        ["child", name] => (name, true),
        _ => bail!("give one scenario: enqueue, drain, work, latency or mixed"),
    };
    let settings = Settings::from_env(name.parse()?)?;
    if is_child {
        return children::serve::<S>(&settings).await;
    }
    let system = S::open(&settings).await?;
    system.install().await.context("cannot install the schema")?;
    let outcome = match settings.command {
        Command::Enqueue => enqueue::measure(&system, &settings).await?,
        Command::Drain | Command::Work => drain::measure(&system, &settings).await?,
        Command::Latency => latency::measure(&system, &settings).await?,
        Command::Mixed => mixed::measure(&system, &settings).await?,
    };
    println!("{}", outcome.json::<S>(&settings)?);
    Ok(())
}
