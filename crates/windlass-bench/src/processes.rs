//! Workers in processes of their own. A process answers when it is ready, is told to go, sends its progress,
//! is told to stop, and reports which jobs it handled. It stops as well when nothing is sent to it any more, so
//! that none outlives this one.

mod message;
mod sum;
pub(crate) mod worker;

pub(crate) use message::Task;

use crate::{child_process::command, measure::Timeline};
use message::{Message, broken};
use std::{
    io::{BufRead, BufReader, Write},
    process::Child,
    time::{Duration, Instant},
};
use sum::Sum;
use tokio::sync::mpsc;
use windlass_cli::{
    failure::{Failure, Outcome},
    measure::STALL,
    progress::Progress,
};

/// The argument that makes a process one of these.
const WORKER_PROCESS: &str = "worker-process";
/// How long a process may take to end when it is told to.
const END: Duration = Duration::from_secs(40);

const ENDED: &str = "it ended early, or sent what cannot be understood";

/// The processes.
pub(crate) struct Processes {
    children: Vec<Child>,
    messages: mpsc::UnboundedReceiver<(usize, Option<Message>)>,
    jobs: u64,
}

/// What they did together.
pub(crate) struct Done {
    pub(crate) took: Duration,
    pub(crate) per_second: Vec<u64>,
    pub(crate) cpu_seconds: f64,
    /// Of the largest.
    pub(crate) peak_memory: Option<u64>,
}

impl Processes {
    /// Starts so many processes; each connects and waits.
    pub(crate) async fn start(count: usize, task: &Task) -> Outcome<Self> {
        let (sender, messages) = mpsc::unbounded_channel();
        let mut processes = Self { children: Vec::new(), messages, jobs: task.jobs };
        let task = serde_json::to_string(task).map_err(|error| broken(&error.to_string()))?;
        for number in 0..count {
            processes.children.push(start_one(number, &sender)?);
            processes.send(number, &task)?;
        }
        for _ in 0..count {
            let (_, Message::Ready) = processes.receive().await? else {
                return Err(broken("it did not answer that it is ready"));
            };
        }
        Ok(processes)
    }

    /// Lets them work until every job is handled and settled, and ends them. Fails unless each job was
    /// handled exactly once by all of them together.
    pub(crate) async fn work(mut self, progress: &mut Progress) -> Outcome<Done> {
        let (mut handled, mut settled) = (vec![0; self.children.len()], vec![false; self.children.len()]);
        let started = Instant::now();
        for number in 0..self.children.len() {
            self.send(number, "go")?;
        }
        let mut timeline = Timeline::default();
        loop {
            let (number, Message::Progress { handled: its, settled: all }) = self.receive().await? else {
                return Err(broken("it sent something else than its progress"));
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

    async fn end(mut self, took: Duration, per_second: Vec<u64>) -> Outcome<Done> {
        for child in &mut self.children {
            // The end of what it reads tells it to stop.
            child.stdin.take();
        }
        let mut sum = Sum::new(self.jobs);
        let mut done = Done { took, per_second, cpu_seconds: 0.0, peak_memory: None };
        let mut reported = vec![false; self.children.len()];
        while reported.contains(&false) {
            match self.next().await? {
                (number, Some(Message::Done(report))) => {
                    reported[number] = true;
                    sum.add(&report);
                    done.cpu_seconds += report.cpu_seconds;
                    done.peak_memory = done.peak_memory.max(report.peak_memory);
                }
                (number, None) if !reported[number] => return Err(broken(ENDED)),
                // Its progress before it read that it is to stop, or its end after it has reported.
                _ => {}
            }
        }
        sum.verify(self.jobs)?;
        Ok(done)
    }

    fn send(&mut self, number: usize, line: &str) -> Outcome {
        let stdin = self.children[number].stdin.as_mut();
        let sent = stdin.map(|stdin| writeln!(stdin, "{line}").and_then(|()| stdin.flush()));
        sent.unwrap_or(Ok(())).map_err(|error| broken(&error.to_string()))
    }

    async fn receive(&mut self) -> Outcome<(usize, Message)> {
        let (number, message) = self.next().await?;
        message.map(|message| (number, message)).ok_or_else(|| broken(ENDED))
    }

    /// The next message; nothing when a process ended, or sent what cannot be understood.
    async fn next(&mut self) -> Outcome<(usize, Option<Message>)> {
        match tokio::time::timeout(STALL, self.messages.recv()).await {
            Ok(Some((_, Some(Message::Failed(why))))) => Err(broken(&why)),
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(broken(ENDED)),
            Err(_) => {
                Err(Failure::failed("stalled", format!("no worker process sent anything for {STALL:?}")))
            }
        }
    }
}

/// Starts a process, and passes on each line that it writes, and its end.
fn start_one(number: usize, sender: &mpsc::UnboundedSender<(usize, Option<Message>)>) -> Outcome<Child> {
    let mut child = command(WORKER_PROCESS)?.spawn()?;
    if let Some(stdout) = child.stdout.take() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send((number, serde_json::from_str(&line).ok()));
            }
            let _ = sender.send((number, None));
        });
    }
    Ok(child)
}

impl Drop for Processes {
    /// Waits for the processes, so that none is left when this one has ended.
    fn drop(&mut self) {
        for child in &mut self.children {
            child.stdin.take();
        }
        let asked = Instant::now();
        for child in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) {
                if asked.elapsed() > END {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
