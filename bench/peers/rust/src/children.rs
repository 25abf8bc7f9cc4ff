use crate::{Settings, System, Tally, Worker};
use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
};

/// How often a worker process tells how far it is.
const TELL_EVERY: Duration = Duration::from_millis(2);

/// What a worker process did.
#[derive(Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) per_second: Vec<u64>,
    /// See [`Tally::runs`].
    pub(crate) runs: Vec<(u8, u64)>,
}

/// Worker processes of this program, ready to go. Those still running are killed when it is dropped.
pub(crate) struct Children(Vec<Worked>);

struct Worked {
    // Held to be killed with the scenario.
    _process: Child,
    input: ChildStdin,
    handled: Arc<AtomicU64>,
    report: JoinHandle<anyhow::Result<Report>>,
}

impl Children {
    /// Starts the processes and waits until each is connected.
    pub(crate) async fn start(settings: &Settings, count: usize) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["child", settings.command.name()]).kill_on_drop(true);
            let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let input = process.stdin.take().context("a worker process has no input")?;
            let output = process.stdout.take().context("a worker process has no output")?;
            let mut lines = BufReader::new(output).lines();
            let first = lines.next_line().await?;
            ensure!(
                first.as_deref() == Some("ready"),
                "a worker process did not become ready; see its error above"
            );
            let handled = Arc::new(AtomicU64::new(0));
            let report = tokio::spawn(listen(lines, Arc::clone(&handled)));
            all.push(Worked { _process: process, input, handled, report });
        }
        Ok(Self(all))
    }

    /// Lets them take jobs.
    pub(crate) async fn go(&mut self) -> anyhow::Result<()> {
        for child in &mut self.0 {
            child.input.write_all(b"go\n").await?;
        }
        Ok(())
    }

    /// Jobs handled until now, by all together.
    pub(crate) fn handled(&self) -> anyhow::Result<u64> {
        if self.0.iter().any(|child| child.report.is_finished()) {
            bail!("a worker process ended before its time; see its error above");
        }
        Ok(self.0.iter().map(|child| child.handled.load(Relaxed)).sum())
    }

    /// Stops them, and collects what they did.
    pub(crate) async fn stop(mut self) -> anyhow::Result<Vec<Report>> {
        let mut reports = Vec::new();
        for child in &mut self.0 {
            child.input.write_all(b"stop\n").await?;
        }
        for child in self.0 {
            reports.push(child.report.await??);
        }
        Ok(reports)
    }
}

async fn listen(mut lines: Lines<BufReader<ChildStdout>>, handled: Arc<AtomicU64>) -> anyhow::Result<Report> {
    while let Some(line) = lines.next_line().await? {
        match line.split_once(' ') {
            Some(("handled", count)) => handled.store(count.parse()?, Relaxed),
            Some(("report", report)) => return Ok(serde_json::from_str(report)?),
            _ => eprintln!("{line}"),
        }
    }
    bail!("a worker process ended without a report")
}

/// A worker process: ready, go, stop, by lines of its input and output.
pub(crate) async fn serve<S: System>(settings: &Settings) -> anyhow::Result<()> {
    let tally = Arc::new(Tally::new(settings.sleep, None));
    let system = S::open(settings).await?;
    let mut worker = system.worker(settings, Arc::clone(&tally)).await?;
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    println!("ready");
    if orders.next_line().await?.is_none() {
        return Ok(());
    }
    tally.begin();
    worker.start().await?;
    let mut told = 0;
    let mut clock = tokio::time::interval(TELL_EVERY);
    loop {
        tokio::select! {
            _ = orders.next_line() => break,
            _ = clock.tick() => {}
        }
        let handled = tally.handled();
        if handled != told {
            println!("handled {handled}");
            told = handled;
        }
    }
    worker.stop().await?;
    let report = Report { per_second: tally.per_second(), runs: tally.runs() };
    println!("report {}", serde_json::to_string(&report)?);
    Ok(())
}
