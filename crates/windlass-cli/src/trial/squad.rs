//! Workers in processes of their own. A member says that it is ready, is told to go, tells how far it is,
//! is told to stop, and hands in which jobs it handled. It stops as well when nobody tells it anything any
//! more, so none outlives us.

mod member;
mod news;
mod sum;

pub(crate) use member::member;

use super::{Team, crew::STALL};
use crate::{
    failure::{Failure, Outcome},
    measure::Timeline,
    progress::Progress,
};
use news::{News, Order};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use sum::Sum;
use tokio::sync::mpsc;
use windlass::JobId;

/// The arguments that make a process a member.
const MEMBER: [&str; 2] = ["bench", "member"];
/// How long a member may take to end when it is told to.
const END: Duration = Duration::from_secs(40);

const ENDED: &str = "it ended early, or said what nobody understands";

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
