mod exec;
mod printed;
mod process_group;
mod queue_option;
mod said;
mod stdio;
mod tail;

use crate::{
    duration,
    failure::{Failure, Outcome},
    globals::Globals,
    interrupt::Signals,
    listen, open,
    traces::{traced, traced_if_exported},
};
use exec::Program;
use process_group::LONGEST_STOP;
use queue_option::QueueOption;
use serde_json::json;
use std::{future::pending, io, net::SocketAddr, sync::Arc, time::Duration};
use stdio::{Pool, PoolStats};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use windlass::{Client, Context, NewJob, RawJob, Worker, WorkerBuilder, WorkerStats};
use windlass_server::serve_worker;

/// The most characters of a program's name that are noted.
const MOST_PROGRAM: usize = 50;

/// How to work jobs by running a program for each, or by programs that work many.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("program").required(true).args(["exec", "stdio"])))]
pub(crate) struct Work {
    /// The program for one job, as the shell reads it: run by sh -c
    #[arg(long, value_name = "CMD", value_parser = command)]
    exec: Option<String>,
    /// What the program of --exec prints is the result of its job
    #[arg(long, requires = "exec", conflicts_with = "stdio")]
    results: bool,
    /// The program for many jobs, as the shell reads it: run by sh -c
    #[arg(long, value_name = "CMD", value_parser = command)]
    stdio: Option<String>,
    /// How many of the programs of --stdio run at once
    #[arg(long, value_name = "N", default_value_t = 1, requires = "stdio", conflicts_with = "exec")]
    processes: usize,
    /// A queue to take jobs from, and how many of its jobs run at once; may be repeated. Default: default
    #[arg(long = "queue", value_name = "NAME[=CONCURRENCY]")]
    queues: Vec<QueueOption>,
    /// Takes only jobs of this kind, the others wait for another worker; may be repeated. Default: any
    #[arg(long = "kind")]
    kinds: Vec<String>,
    /// How many jobs of each queue run at once that does not say. Default: 10, or with --stdio as many as the programs run
    #[arg(long)]
    concurrency: Option<usize>,
    /// The time of an attempt whose job says nothing of its own: a program that runs longer is stopped, or told to stop with --stdio; the attempt failed
    #[arg(long, value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// The version of the application that works the jobs: shown where workers are listed
    #[arg(long, value_name = "VERSION", env = "WINDLASS_APP_VERSION")]
    app_version: Option<String>,
    /// How long this worker may be silent before others take its jobs
    #[arg(long, value_parser = duration::parse, default_value = "30s")]
    lease: Duration,
    /// How long running programs may go on after the first SIGTERM, SIGINT or SIGHUP; a second one stops them now
    #[arg(long, value_parser = duration::parse, default_value = "30s")]
    grace_period: Duration,
    /// Answers Prometheus at /metrics and probes at /healthz and /readyz, of this worker. A port alone is for this machine; a port of 0 takes a free one. Where it
    /// does is printed first; with --json as a document of its own
    #[arg(long, value_name = "[IP:]PORT", value_parser = listen::parse)]
    metrics: Option<SocketAddr>,
    /// Stops when nothing is available any more
    #[arg(long, visible_alias = "drain")]
    until_empty: bool,
}

impl Work {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        // First of all: the system tells process 1, as in a container, no signal that it does not listen to; and what was started until then has to end, too.
        let mut signals = Signals::listen()?;
        let Prepared { client, asked, pool } = tokio::select! {
            prepared = self.prepare(globals) => prepared?,
            () = signals.next() => return Ok(()),
        };
        let builder = self.builder(&client, pool.as_ref())?;
        let worker = Arc::new(builder.start().await?);
        let answering = asked.map(|listener| answer(listener, &client, &worker));
        let emptied = async {
            match self.until_empty {
                true => worker.until_idle().await,
                false => pending().await,
            }
        };
        let running = worker.run_until(async || signals.next().await);
        tokio::pin!(running);
        tokio::select! {
            () = &mut running => {}
            emptied = emptied => {
                worker.stop();
                running.await;
                emptied?;
            }
        }
        if let Some((answering, until)) = answering {
            // At once, but for an answer that is under way.
            drop(until);
            let _ = answering.await;
        }
        let stats = worker.stats();
        let processes = match pool {
            Some(pool) => Some(pool.stop().await),
            None => None,
        };
        client.close().await;
        report(globals, &stats, processes)
    }

    /// All that can take long, and be given up, before there is a worker.
    async fn prepare(&self, globals: &Globals) -> Outcome<Prepared> {
        let client = globals.with_keys(open::create(globals.url()).await?)?;
        let client = if self.exec.is_some() { traced(client) } else { traced_if_exported(client) };
        let asked = match self.metrics {
            Some(address) => {
                let listener = listen::on(address, "--metrics").await?;
                let url = format!("http://{}/metrics", listener.local_addr()?);
                globals.print(&json!({ "metrics": url }), || url.clone())?;
                Some(listener)
            }
            None => None,
        };
        let pool = match &self.stdio {
            Some(command) => Some(Pool::start(command, self.processes).await?),
            None => None,
        };
        Ok(Prepared { client, asked, pool })
    }

    fn queues(&self, concurrency: usize) -> impl Iterator<Item = (String, usize)> {
        let default = QueueOption { name: NewJob::DEFAULT_QUEUE.to_owned(), concurrency: None };
        let default = self.queues.is_empty().then_some(default);
        let queues = self.queues.clone().into_iter().chain(default);
        queues.map(move |queue| (queue.name, queue.concurrency.unwrap_or(concurrency)))
    }

    fn builder(&self, client: &Client, pool: Option<&Pool>) -> Outcome<WorkerBuilder> {
        self.timeout.map_or(Ok(()), windlass::Limits::check_timeout)?;
        let most = pool.map_or(WorkerBuilder::DEFAULT_CONCURRENCY, Pool::places);
        let mut builder = Worker::builder(client).lease(self.lease).grace_period(self.grace_period);
        for (queue, concurrency) in self.queues(self.concurrency.unwrap_or(most)) {
            builder = builder.queue(queue, concurrency);
        }
        if let Some(version) = self.app_version.as_ref().filter(|version| !version.is_empty()) {
            builder = builder.app_version(version);
        }
        if let Some(timeout) = self.timeout {
            builder = builder.timeout(timeout);
        }
        let (way, command) = match &self.stdio {
            Some(command) => ("stdio", command.as_str()),
            None => ("exec", self.exec.as_deref().unwrap_or_default()),
        };
        builder = builder.configure(|config| {
            config.program.name = program_of(command);
            config.program.engine = Some(format!("{way} {}", env!("CARGO_PKG_VERSION")));
        });
        match (pool, &self.exec) {
            (Some(pool), _) => self.lending(builder, pool),
            (None, command) => Ok(self.running(builder, command.clone().unwrap_or_default())),
        }
    }

    /// Programs of --stdio run the jobs.
    fn lending(&self, builder: WorkerBuilder, pool: &Pool) -> Outcome<WorkerBuilder> {
        let theirs = pool.kinds();
        if let Some(unknown) = self.kinds.iter().find(|kind| !theirs.is_empty() && !theirs.contains(kind)) {
            let message = format!("the program says that it runs {}, not {unknown:?}", theirs.join(", "));
            return Err(Failure::usage("invalid_option", message));
        }
        let kinds = if self.kinds.is_empty() { theirs } else { &self.kinds };
        let builder = match kinds.is_empty() {
            true => builder.lend_any(pool.lender()),
            false => builder.lend(kinds, pool.lender()),
        };
        // Not of those that this worker leaves to others; of a kind that the program does not run it is refused.
        let is_for_others = |kind: &String| match theirs.is_empty() {
            true => !kinds.is_empty() && !kinds.contains(kind),
            false => theirs.contains(kind) && !kinds.contains(kind),
        };
        let of_ours = pool.timeouts().iter().filter(|(kind, _)| !is_for_others(kind));
        Ok(of_ours.fold(builder, |builder, (kind, timeout)| builder.timeout_of(kind, *timeout)))
    }

    /// A program of --exec runs each job.
    fn running(&self, builder: WorkerBuilder, command: String) -> WorkerBuilder {
        let program = Arc::new(Program { command, results: self.results });
        let handler = move |job: RawJob, context: Context| {
            let program = Arc::clone(&program);
            async move { program.run(job.bytes().clone(), context).await }
        };
        // Nobody is dropped in the middle of it.
        let builder = builder.configure(|config| config.timeout_grace = LONGEST_STOP);
        match self.kinds.is_empty() {
            true => builder.handle_any(handler),
            false => self.kinds.iter().fold(builder, |b, kind| b.handle_kind(kind, handler.clone())),
        }
    }
}

/// A command that has a program. The shell does nothing for one without, and succeeds: each job would be completed.
fn command(command: &str) -> Result<String, &'static str> {
    let is_silent = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    match command.lines().all(is_silent) {
        true => Err(
            "it names no program, so every job would be completed with nothing done; is a variable unset?",
        ),
        false => Ok(command.to_owned()),
    }
}

/// The name of the program that a command begins with; its other words may be secrets.
fn program_of(command: &str) -> Option<String> {
    let word = command.split_whitespace().find(|word| !word.contains('='))?;
    let name: String = word
        .rsplit('/')
        .next()?
        .chars()
        .filter(|c| c.is_alphanumeric() || "-_.+".contains(*c))
        .take(MOST_PROGRAM)
        .collect();
    Some(name).filter(|name| !name.is_empty())
}

/// What a worker needs.
struct Prepared {
    client: Client,
    /// Where it answers about itself.
    asked: Option<TcpListener>,
    pool: Option<Pool>,
}

/// Answers about the worker until what is given beside the task is dropped.
fn answer(
    listener: TcpListener,
    client: &Client,
    worker: &Arc<Worker>,
) -> (JoinHandle<io::Result<()>>, oneshot::Sender<()>) {
    let (until, ended) = oneshot::channel::<()>();
    let (client, worker) = (client.clone(), Arc::clone(worker));
    let ended = async { ended.await.unwrap_or_default() };
    (tokio::spawn(serve_worker(listener, client, worker, ended)), until)
}

fn report(globals: &Globals, stats: &WorkerStats, processes: Option<PoolStats>) -> Outcome {
    let mut answer = json!({
        "claimed": stats.claimed,
        "completed": stats.completed,
        "retried": stats.retried,
        "snoozed": stats.snoozed,
        "cancelled": stats.cancelled,
        "discarded": stats.discarded,
        "no_handler": stats.no_handler,
        "returned": stats.returned,
        "taken_away": stats.taken_away(),
    });
    if let Some(PoolStats { started, died, refused }) = processes {
        answer["processes"] = json!({ "started": started, "died": died, "refused_answers": refused });
    }
    let of_processes =
        |processes: PoolStats| format!("; processes started: {}, {} died", processes.started, processes.died);
    globals.print(&answer, || {
        let jobs = format!(
            "jobs taken: {}; {} completed, {} to be retried, {} put off, {} cancelled or expired, {} discarded, {} handed back",
            stats.claimed,
            stats.completed,
            stats.retried,
            stats.snoozed,
            stats.cancelled,
            stats.discarded,
            stats.no_handler + stats.returned
        );
        let taken_away = match stats.taken_away() {
            0 => String::new(),
            count => format!(", {count} taken away by the store"),
        };
        jobs + &taken_away + &processes.map_or_else(String::new, of_processes)
    })
}
