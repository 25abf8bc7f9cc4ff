//! Workers in processes of their own. A member says that it is ready, is told to go, tells how far it is,
//! is told to stop, and hands in which jobs it handled. It stops as well when nobody tells it anything any
//! more, so none outlives us.

use super::{Crew, Team, crew::STALL, place::clients};
use crate::{
    failure::{Failure, Outcome},
    measure::{Timeline, cpu_seconds, peak_memory},
    progress::Progress,
};
use serde::{Deserialize, Serialize};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;
use windlass::JobId;

/// The arguments that make a process a member.
const MEMBER: [&str; 2] = ["bench", "member"];
/// How often a member tells how far it is.
const TELL_EVERY: Duration = Duration::from_millis(5);
/// How long a member may take to end when it is told to.
const END: Duration = Duration::from_secs(40);

const ENDED: &str = "it ended early, or said what nobody understands";

/// What a member is to do: the first line that it reads.
#[derive(Serialize, Deserialize)]
struct Order {
    /// Told through a pipe: the URL may hold a password, which a list of processes would show.
    url: String,
    team: Team,
    workers: usize,
    jobs: u64,
    first: i64,
}

/// What a member tells.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum News {
    Ready,
    At { handled: u64, settled: bool },
    Done(Deed),
    Failed(String),
}

/// What a member did.
#[derive(Serialize, Deserialize)]
struct Deed {
    /// A bit for each job, in hexadecimal digits of four jobs each.
    seen: String,
    repeated: u64,
    strangers: u64,
    cpu_seconds: Option<f64>,
    peak_memory: Option<u64>,
}

/// The processes.
pub(crate) struct Squad {
    members: Vec<Child>,
    news: mpsc::UnboundedReceiver<(usize, Option<News>)>,
    jobs: u64,
}

/// What they did together.
pub(crate) struct Deeds {
    pub(crate) took: Duration,
    pub(crate) per_second: Vec<u64>,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) peak_memory: Option<u64>,
}

impl Squad {
    /// Starts the processes; each connects and waits.
    pub(crate) async fn assemble(
        url: &str,
        team: &Team,
        (processes, workers): (usize, usize),
        (jobs, first): (u64, JobId),
    ) -> Outcome<Self> {
        let (sender, news) = mpsc::unbounded_channel();
        let mut squad = Self { members: Vec::new(), news, jobs };
        let order = Order { url: url.to_owned(), team: team.clone(), workers, jobs, first: first.0 };
        let order = serde_json::to_string(&order).map_err(|error| broken(&error.to_string()))?;
        for number in 0..processes {
            let mut child = Command::new(std::env::current_exe()?)
                .args(MEMBER)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                // Ctrl-C is for us; members are told what to do.
                .process_group(0)
                .spawn()?;
            if let Some(stdout) = child.stdout.take() {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                        let _ = sender.send((number, serde_json::from_str(&line).ok()));
                    }
                    let _ = sender.send((number, None));
                });
            }
            squad.members.push(child);
            squad.tell(number, &order)?;
        }
        for _ in 0..processes {
            let (_, News::Ready) = squad.hear().await? else {
                return Err(broken("it did not say that it is ready"));
            };
        }
        Ok(squad)
    }

    /// Lets them work until every job is handled and settled, and ends them. Fails unless each job was
    /// handled exactly once by all of them together.
    pub(crate) async fn work(mut self, progress: &mut Progress) -> Outcome<Deeds> {
        let (mut handled, mut settled) = (vec![0; self.members.len()], vec![false; self.members.len()]);
        let started = Instant::now();
        for number in 0..self.members.len() {
            self.tell(number, "go")?;
        }
        let mut timeline = Timeline::default();
        loop {
            let (number, News::At { handled: its, settled: all }) = self.hear().await? else {
                return Err(broken("it said something else than how far it is"));
            };
            (handled[number], settled[number]) = (its, all);
            let sum = handled.iter().sum();
            timeline.record(started.elapsed(), sum);
            progress.reach(sum);
            if sum >= self.jobs && settled.iter().all(|&settled| settled) {
                break;
            }
        }
        let took = started.elapsed();
        self.end(took, timeline.per_second()).await
    }

    async fn end(mut self, took: Duration, per_second: Vec<u64>) -> Outcome<Deeds> {
        for member in &mut self.members {
            // The end of what it reads tells it to stop.
            member.stdin.take();
        }
        let mut sum = Sum::new(self.jobs);
        let mut deeds = Deeds { took, per_second, cpu_seconds: Some(0.0), peak_memory: None };
        let mut done = vec![false; self.members.len()];
        while done.contains(&false) {
            match self.next().await? {
                (number, Some(News::Done(deed))) => {
                    done[number] = true;
                    sum.add(&deed);
                    deeds.cpu_seconds = deeds.cpu_seconds.zip(deed.cpu_seconds).map(|(all, its)| all + its);
                    deeds.peak_memory = deeds.peak_memory.max(deed.peak_memory);
                }
                (number, None) if !done[number] => return Err(broken(ENDED)),
                // How far it was before it heard that it is to stop, or its end after it said all.
                _ => {}
            }
        }
        sum.verify(self.jobs)?;
        Ok(deeds)
    }

    fn tell(&mut self, number: usize, line: &str) -> Outcome {
        let stdin = self.members[number].stdin.as_mut();
        let told = stdin.map(|stdin| writeln!(stdin, "{line}").and_then(|()| stdin.flush()));
        told.unwrap_or(Ok(())).map_err(|error| broken(&error.to_string()))
    }

    async fn hear(&mut self) -> Outcome<(usize, News)> {
        let (number, news) = self.next().await?;
        news.map(|news| (number, news)).ok_or_else(|| broken(ENDED))
    }

    /// What the next of them says; nothing when it ended, or said what cannot be understood.
    async fn next(&mut self) -> Outcome<(usize, Option<News>)> {
        match tokio::time::timeout(STALL, self.news.recv()).await {
            Ok(Some((_, Some(News::Failed(why))))) => Err(broken(&why)),
            Ok(Some(news)) => Ok(news),
            Ok(None) => Err(broken(ENDED)),
            Err(_) => Err(Failure::failed("stalled", format!("no worker process moved for {STALL:?}"))),
        }
    }
}

fn broken(why: &str) -> Failure {
    Failure::failed("worker_process", format!("a worker process failed: {why}"))
}

impl Drop for Squad {
    /// Waits for the processes, so that none is there when we are gone.
    fn drop(&mut self) {
        for member in &mut self.members {
            member.stdin.take();
        }
        let asked = Instant::now();
        for member in &mut self.members {
            while matches!(member.try_wait(), Ok(None)) {
                if asked.elapsed() > END {
                    let _ = member.kill();
                    let _ = member.wait();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Which jobs were handled by all together.
struct Sum {
    seen: Vec<u8>,
    repeated: u64,
    strangers: u64,
}

impl Sum {
    fn new(jobs: u64) -> Self {
        Self { seen: vec![0; jobs.div_ceil(4) as usize], repeated: 0, strangers: 0 }
    }

    fn add(&mut self, deed: &Deed) {
        self.repeated += deed.repeated;
        self.strangers += deed.strangers;
        for (all, digit) in self.seen.iter_mut().zip(deed.seen.bytes()) {
            let its = char::from(digit).to_digit(16).unwrap_or(0) as u8;
            self.repeated += u64::from((*all & its).count_ones());
            *all |= its;
        }
    }

    fn verify(&self, jobs: u64) -> Outcome {
        let seen: u64 = self.seen.iter().map(|digit| u64::from(digit.count_ones())).sum();
        let faults = crate::measure::Faults {
            lost: jobs.saturating_sub(seen),
            repeated: self.repeated,
            strangers: self.strangers,
        };
        faults.check(jobs).map_err(|wrong| Failure::failed("not_exactly_once", wrong))
    }
}

/// The life of a member.
pub(crate) async fn member() -> Outcome {
    let outcome = obey().await;
    if let Err(failure) = outcome {
        let (_, why) = failure.at_line();
        tell(&News::Failed(why))?;
    }
    Ok(())
}

async fn obey() -> Outcome {
    let (sender, mut lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let Some(order) = lines.recv().await else { return Ok(()) };
    let order: Order = serde_json::from_str(&order).map_err(|error| broken(&error.to_string()))?;
    let clients = clients(&order.url, order.workers).await?;
    for client in &clients {
        client.queues().await?;
    }
    tell(&News::Ready)?;
    if lines.recv().await.is_none() {
        return Ok(());
    }
    let (crew, _pings) = Crew::start(&clients, &order.team, (u64::MAX, JobId(order.first))).await?;
    let mut told = None;
    let mut ticks = tokio::time::interval(TELL_EVERY);
    loop {
        tokio::select! {
            // Nothing more is said; this is the end of what there is to read.
            _ = lines.recv() => break,
            _ = ticks.tick() => {
                // In this order: what was handled before it was settled counts as settled.
                let handled = crew.tally().handled();
                let now = (handled, crew.settled() >= crew.calls());
                if told != Some(now) {
                    tell(&News::At { handled, settled: now.1 })?;
                    told = Some(now);
                }
            }
        }
    }
    let deed = deed(&crew, order.jobs);
    crew.stop().await;
    for client in clients {
        client.close().await;
    }
    tell(&News::Done(deed))
}

fn deed(crew: &Crew, jobs: u64) -> Deed {
    let (tally, mut seen) = (crew.tally(), String::with_capacity(jobs.div_ceil(4) as usize));
    for digit in 0..jobs.div_ceil(4) {
        let bit = |at: u64| u32::from(tally.times(digit * 4 + at) > 0) << at;
        let bits = (0..4).map(bit).sum();
        seen.push(char::from_digit(bits, 16).unwrap_or('0'));
    }
    let faults = tally.faults(jobs);
    Deed {
        seen,
        repeated: faults.repeated,
        strangers: faults.strangers,
        cpu_seconds: cpu_seconds(),
        peak_memory: peak_memory(),
    }
}

fn tell(news: &News) -> Outcome {
    let line = serde_json::to_string(news).map_err(|error| broken(&error.to_string()))?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
