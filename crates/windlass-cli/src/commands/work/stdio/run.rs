use super::{
    Shared,
    child::{Child, Ended, pass_on, shown, too_long},
    lines::Line,
};
use std::{
    collections::HashSet,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};
use tokio::{sync::Notify, task::JoinSet, time::timeout};
use tracing::warn;
use windlass::{Args, Context, Outcome, lend::Room};
use windlass_bridge::{About, Answer, Desk, Malformed, Said, Say, Told, checkpoint_line, job_line};

/// How many bytes of args are taken at once.
const ROOM_BYTES: usize = 1 << 20;
/// How many lines are looked at before their outcomes are handed in.
const LINES_AT_ONCE: usize = 256;
/// How long to wait for what a process said before it closed its stdin.
const LAST_LINES_WAIT: Duration = Duration::from_secs(1);
/// How long a process may take to end when its stdin was closed.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// How the life of a process ended.
pub(super) struct End {
    /// What was wrong, if anything: a text that goes on after "the process".
    pub(super) why: Option<String>,
    /// It finished a job.
    pub(super) worked: bool,
}

/// A process at work.
struct Work<'a> {
    shared: &'a Shared,
    child: Child,
    desk: Desk,
    bell: Arc<Notify>,
    /// The jobs that it runs.
    running: HashSet<u64>,
    /// Jobs that were taken from it, and that it did not answer for yet: it gets no others meanwhile.
    overdue: HashSet<u64>,
    done: Vec<(u64, Outcome)>,
    /// Checkpoints that the store does not have yet, and questions for them: what is answered.
    asked: JoinSet<Vec<u8>>,
    worked: bool,
    /// It wants no more jobs.
    stops: bool,
}

/// Lets a process work until it ends or the worker does.
pub(super) async fn work(shared: &Shared, child: Child) -> End {
    let bell = Arc::new(Notify::new());
    let ring = Arc::clone(&bell);
    let desk = Desk::new(&shared.lender, move || ring.notify_one());
    let mut work = Work {
        shared,
        child,
        desk,
        bell,
        running: HashSet::new(),
        overdue: HashSet::new(),
        done: Vec::new(),
        asked: JoinSet::new(),
        worked: false,
        stops: false,
    };
    let why = work.run().await.err();
    work.end(why).await
}

impl Work<'_> {
    /// Works until there is nothing more to do here; an error when that is because something was wrong.
    async fn run(&mut self) -> Result<(), String> {
        let mut lines = Vec::new();
        while self.exchange()? {
            let child = &mut self.child;
            tokio::select! {
                biased;
                Some(Ok(answer)) = self.asked.join_next() => self.tell(answer)?,
                count = child.lines.recv_many(&mut lines, LINES_AT_ONCE) => {
                    if count == 0 {
                        return self.closed_stdout().await;
                    }
                    self.take(&mut lines).await?;
                }
                () = self.bell.notified() => {}
                _ = child.writer.join_next() => return self.closed_stdin().await,
            }
        }
        Ok(())
    }

    /// Hands in what is done, and tells the process what is new. Whether it goes on.
    fn exchange(&mut self) -> Result<bool, String> {
        loop {
            let free = self.child.ready.concurrency.saturating_sub(self.running.len());
            let takes = self.overdue.is_empty() && !self.stops;
            let room = Room { jobs: if takes { free } else { 0 }, bytes: ROOM_BYTES };
            let exchange = self.desk.exchange(self.done.drain(..), room);
            self.shared.refused.fetch_add(exchange.refused.into(), Ordering::Relaxed);
            for told in exchange.told {
                self.news(told)?;
            }
            let taken = exchange.jobs.len();
            for job in exchange.jobs {
                match job_line(&job) {
                    Ok(line) => {
                        self.running.insert(job.ticket.0);
                        self.tell(line)?;
                    }
                    Err(error) => self.done.push((job.ticket.0, Outcome::Discard(error))),
                }
            }
            let has_none = self.running.is_empty() && self.done.is_empty();
            if exchange.closed || (self.stops && has_none && self.overdue.is_empty()) {
                return Ok(false);
            }
            if has_none && !self.overdue.is_empty() {
                return Err("went on with a job that was taken from it, and was killed".to_owned());
            }
            // There may be more jobs than bytes at once, or a room that came free just now.
            if self.done.is_empty() && (taken == 0 || taken == room.jobs) {
                return Ok(true);
            }
        }
    }

    fn news(&mut self, told: Told) -> Result<(), String> {
        match told {
            Told::Cancel { ticket, .. } if self.running.contains(&ticket) => self.tell(told.line()),
            Told::Dropped { ticket } if self.running.remove(&ticket) => {
                self.overdue.insert(ticket);
                self.tell(told.line())
            }
            Told::Cancel { .. } | Told::Dropped { .. } => Ok(()),
        }
    }

    /// Adds a line to the process's stdin.
    fn tell(&self, line: Vec<u8>) -> Result<(), String> {
        self.child.input.try_send(line).map_err(|error| match error {
            tokio::sync::mpsc::error::TrySendError::Full(_) => "does not read its stdin".to_owned(),
            tokio::sync::mpsc::error::TrySendError::Closed(_) => "closed its stdin".to_owned(),
        })
    }

    /// Takes in what the process said.
    async fn take(&mut self, lines: &mut Vec<Line>) -> Result<(), String> {
        for line in lines.drain(..) {
            let Line::Text(line) = line else { return Err(too_long()) };
            match Said::parse(&line) {
                Ok(Said::OfJob(answer)) => self.answer(answer).await?,
                Ok(Said::Stop) => self.stops = true,
                Ok(Said::Ready { .. }) => warn!("a process said twice that it is ready"),
                Err(Malformed::Other) => pass_on(&line),
                Err(Malformed::OfJob { ticket, about, error }) => {
                    warn!("the message {} is wrong: {error}", shown(&line));
                    let error = format!("the message of the program is wrong: {error}");
                    match about {
                        About::Outcome => self.finish(ticket, Outcome::Retry { after: None, error }),
                        About::Report => {}
                        About::Checkpoint => self.tell(checkpoint_line(ticket, Err(&error)))?,
                    }
                }
                Err(Malformed::Message(error)) => {
                    warn!("the line {} is no message: {error}", shown(&line));
                    return Err(format!("wrote a line that is no message: {error}"));
                }
            }
        }
        Ok(())
    }

    async fn answer(&mut self, Answer { ticket, say }: Answer) -> Result<(), String> {
        let context = match say {
            Say::Outcome(outcome) => {
                self.finish(ticket, outcome);
                return Ok(());
            }
            _ => self.desk.context(ticket),
        };
        let Some(context) = context else {
            return match say {
                Say::Checkpoint(_) | Say::LastCheckpoint => {
                    self.tell(checkpoint_line(ticket, Err("the job is not this process's any more")))
                }
                _ => Ok(()), // what is said too late is lost
            };
        };
        match say {
            Say::Progress(progress) => {
                if let Err(error) = context.progress(progress) {
                    warn!(job = %context.id(), %error, "a progress is refused");
                }
                Ok(())
            }
            Say::Log(text) => {
                context.log(text);
                Ok(())
            }
            Say::Checkpoint(value) => self.ask(keep(ticket, context, value)).await,
            Say::LastCheckpoint => self.ask(look_up(ticket, context)).await,
            Say::Outcome(_) => Ok(()),
        }
    }

    fn finish(&mut self, ticket: u64, outcome: Outcome) {
        if self.running.remove(&ticket) {
            self.worked = true;
            self.done.push((ticket, outcome));
            return;
        }
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        if !self.overdue.remove(&ticket) {
            warn!(
                ticket,
                "a process answered for a job that it does not have: it answered twice, or made the ticket up"
            );
        }
    }

    /// Begins at once, so that what is said afterwards comes after it; its answer comes when the store has one.
    async fn ask(&mut self, answer: impl Future<Output = Vec<u8>> + Send + 'static) -> Result<(), String> {
        if self.asked.len() > self.child.ready.concurrency * 2 + LINES_AT_ONCE {
            return Err("asks for more checkpoints than can be answered; wait for each answer".to_owned());
        }
        let mut answer: Pin<Box<dyn Future<Output = Vec<u8>> + Send>> = Box::pin(answer);
        match poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await {
            Poll::Ready(line) => self.tell(line),
            Poll::Pending => {
                self.asked.spawn(answer);
                Ok(())
            }
        }
    }

    /// It closed its stdout: it ended, or will.
    async fn closed_stdout(&mut self) -> Result<(), String> {
        let Ended { cleanly, how } = self.child.running.ended().await;
        let idle = self.running.is_empty() && self.overdue.is_empty();
        if cleanly && idle { Ok(()) } else { Err(how) }
    }

    /// It closed its stdin: it ended, or will take no more jobs. What it said before that still counts.
    async fn closed_stdin(&mut self) -> Result<(), String> {
        let mut lines = Vec::new();
        let last = async {
            while self.child.lines.recv_many(&mut lines, LINES_AT_ONCE).await > 0 {
                self.take(&mut lines).await?;
            }
            Ok(())
        };
        match timeout(LAST_LINES_WAIT, last).await {
            Ok(Ok(())) => self.closed_stdout().await,
            Ok(Err(why)) => Err(why),
            Err(_) => Err("closed its stdin, and goes on".to_owned()),
        }
    }

    /// Ends the process, and fails the jobs that it has.
    async fn end(self, why: Option<String>) -> End {
        let Self { desk, done, child, worked, .. } = self;
        let Child { mut running, input, mut writer, .. } = child;
        desk.exchange(done, Room::jobs(0));
        match &why {
            Some(why) => desk.end(&format!("the process that ran it {why}")),
            None => {
                drop(input); // the end of its stdin asks it to end
                let ends = async {
                    while writer.join_next().await.is_some() {}
                    running.ended_itself().await;
                };
                let _ = timeout(CLOSE_WAIT, ends).await;
                running.stop().await; // and what it started
            }
        }
        End { why, worked }
    }
}

async fn keep(ticket: u64, context: Context, value: Args) -> Vec<u8> {
    match context.checkpoint(&value).await {
        Ok(()) => checkpoint_line(ticket, Ok(Some(&value))),
        Err(error) => checkpoint_line(ticket, Err(&error.to_string())),
    }
}

async fn look_up(ticket: u64, context: Context) -> Vec<u8> {
    match context.last_checkpoint::<Args>().await {
        Ok(value) => checkpoint_line(ticket, Ok(value.as_ref())),
        Err(error) => checkpoint_line(ticket, Err(&error.to_string())),
    }
}
