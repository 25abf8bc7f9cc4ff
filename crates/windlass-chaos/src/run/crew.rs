use super::Run;
use crate::{
    actor::{LEADER, Load, Order, Role, Timetable, Work},
    history::{Fault, What},
    node::{Clock, Process},
};
use anyhow::{Context as _, Result, bail};
use std::{
    fs::File,
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// How long an actor may take to end after it was told to: its grace period, and a database that is away.
const FAREWELL: Duration = Duration::from_secs(60);
/// About what an event of a producer takes in its file.
const PRODUCER_EVENT_BYTES: u64 = 72;
/// How often the agenda and the members are looked at.
const TICK: Duration = Duration::from_millis(5);

/// A producer or worker, through all its starts.
pub(super) struct Member {
    name: String,
    role: Role,
    number: u64,
    starts: u32,
    process: Option<Process>,
    paused: bool,
    how: How,
}

/// How a member's processes are started.
#[derive(Clone, Default)]
struct How {
    /// Bytes that it may have, if it has a cap.
    cap: Option<u64>,
    clock: Option<std::sync::Arc<Clock>>,
    /// The program that it is, if it is not this one: a command of the shell.
    actor: Option<String>,
}

/// What is to be done later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Todo {
    Resume(usize),
    Restart(usize),
}

impl How {
    fn command(&self, order: &Order) -> Result<Command> {
        let order = serde_json::to_string(order)?;
        let mut command;
        match &self.actor {
            None => {
                command = Command::new(std::env::current_exe()?);
                command.arg("actor");
            }
            // In the place of the shell, so that it is who is killed.
            Some(actor) => {
                command = Command::new("sh");
                command.args(["-c", &format!("exec {actor} \"$@\""), "sh"]);
            }
        }
        command.arg(order);
        Ok(command)
    }
}

impl Run {
    /// Starts a worker; returns its index.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn worker(&mut self, work: Work) -> Result<usize> {
        self.join("worker", Role::Worker(work), How::default())
    }

    /// Starts a worker with a cap on its memory, in bytes.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn capped_worker(&mut self, work: Work, cap: u64) -> Result<usize> {
        self.join("worker", Role::Worker(work), How { cap: Some(cap), ..How::default() })
    }

    /// Starts a worker whose wall clock can be moved.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn clocked_worker(&mut self, work: Work, clock: std::sync::Arc<Clock>) -> Result<usize> {
        self.join("worker", Role::Worker(work), How { clock: Some(clock), ..How::default() })
    }

    /// Starts a worker that is another program: `actor`, a command of the shell, gets its [`Order`] as one more argument.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn worker_by(&mut self, actor: &str, work: Work) -> Result<usize> {
        self.join("worker", Role::Worker(work), How { actor: Some(actor.to_owned()), ..How::default() })
    }

    /// Starts a producer; returns its index.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn producer(&mut self, load: Load) -> Result<usize> {
        self.join("producer", Role::Producer(load), How::default())
    }

    /// Starts the consumer of events, of which there is one; returns its index.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn listener(&mut self) -> Result<usize> {
        self.rules.listens = true;
        self.join("listener", Role::Listener, How::default())
    }

    /// Starts somebody who looks after schedules, past any proxy, and whom no fault hits; returns its index.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn keeper(&mut self, timetable: Timetable) -> Result<usize> {
        self.join("keeper", Role::Keeper(timetable), How::default())
    }

    /// The worker that was last told that it leads, if it runs: of those that write it down.
    pub fn leader(&self) -> Option<usize> {
        let number: u64 = std::fs::read_to_string(self.setup.folder.join(LEADER)).ok()?.parse().ok()?;
        self.running("worker").into_iter().find(|index| self.members[*index].number == number)
    }

    fn join(&mut self, kind: &str, role: Role, how: How) -> Result<usize> {
        let count = self.members.iter().filter(|member| member.name.starts_with(kind)).count();
        let name = format!("{kind}-{}", count + 1);
        self.members.push(Member { name, role, number: 0, starts: 0, process: None, paused: false, how });
        self.start(self.members.len() - 1)?;
        Ok(self.members.len() - 1)
    }

    /// Starts a member, again perhaps.
    fn start(&mut self, index: usize) -> Result<()> {
        let number = self.next_number;
        self.next_number += 1;
        let member = &mut self.members[index];
        member.number = number;
        member.starts += 1;
        let name = format!("{}.{}", member.name, member.starts);
        let order = Order {
            store: match member.role {
                Role::Keeper(_) => self.setup.store.clone(),
                _ => self.setup.actors_store.clone(),
            },
            history: self.setup.folder.join(format!("{name}.history")),
            number,
            seed: self.setup.seed ^ number << 32,
            bug: self.setup.bug,
            role: member.role.clone(),
        };
        let log = File::create(self.setup.folder.join(format!("{name}.log")))?;
        let mut command = member.how.command(&order)?;
        command.env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        if let Some(clock) = &member.how.clock {
            clock.give_to(&mut command);
        }
        let mut process = Process::spawn(command).with_context(|| format!("cannot start {name}"))?;
        if let Some(bytes) = member.how.cap {
            // It may have met a pill already.
            if process.status()?.is_none() {
                process.cap_memory(bytes).ok();
            }
        }
        member.process = Some(process);
        member.paused = false;
        Ok(())
    }

    /// The members of a kind that run and are not paused.
    pub fn running(&self, kind: &str) -> Vec<usize> {
        let is =
            |member: &Member| member.name.starts_with(kind) && member.process.is_some() && !member.paused;
        (0..self.members.len()).filter(|index| is(&self.members[*index])).collect()
    }

    /// One of them by chance.
    pub fn any_running(&mut self, kind: &str) -> Option<usize> {
        let running = self.running(kind);
        self.rng.choice(&running).copied()
    }

    fn note(&mut self, fault: Fault, index: usize, begins: bool) {
        let target = i64::try_from(self.members[index].number).ok();
        self.recorder.note(What::Fault { fault, target, begins });
        self.rules.planned_faults += u64::from(begins);
    }

    /// SIGKILL, and a new start after a while.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&mut self, index: usize, restart_after: Duration) -> Result<()> {
        self.note(Fault::Kill, index, true);
        if let Some(mut process) = self.members[index].process.take() {
            process.kill()?;
        }
        self.agenda.push((Instant::now() + restart_after, Todo::Restart(index)));
        Ok(())
    }

    /// SIGSTOP, and SIGCONT after a while.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn pause(&mut self, index: usize, length: Duration) -> Result<()> {
        self.note(Fault::Pause, index, true);
        if let Some(process) = &mut self.members[index].process {
            process.stop()?;
        }
        self.members[index].paused = true;
        self.agenda.push((Instant::now() + length, Todo::Resume(index)));
        Ok(())
    }

    /// SIGTERM, and a new start when it has ended; a second SIGTERM at once makes it hurry.
    ///
    /// # Errors
    /// When it does not end.
    pub fn terminate(&mut self, index: usize, twice: bool) -> Result<()> {
        self.note(Fault::Terminate, index, true);
        if let Some(mut process) = self.members[index].process.take() {
            process.term()?;
            if twice {
                let _ = process.term();
            }
            self.farewell(index, &mut process)?;
        }
        self.note(Fault::Terminate, index, false);
        self.start(index)
    }

    /// Waits for its end, and meanwhile lets go on who is paused: one that stands still in the middle of a write to SQLite lets nobody else write.
    fn farewell(&mut self, index: usize, process: &mut Process) -> Result<()> {
        let status = process.wait_doing(FAREWELL, || self.do_due())?;
        // Too young to listen to signals yet, and so without a job.
        let is_young = status.signal() == Some(rustix::process::Signal::TERM.as_raw());
        if !status.success() && !is_young {
            let name = &self.members[index].name;
            let text = format!("{name} ended with {status} when it was told to stop; see its log");
            self.fail(text);
        }
        Ok(())
    }

    /// Lets time pass, doing what is due.
    ///
    /// # Errors
    /// When what is due does not work, or an actor died that nobody killed.
    pub fn wait(&mut self, length: Duration) -> Result<()> {
        let end = Instant::now() + length;
        loop {
            self.tick()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(TICK));
        }
    }

    fn tick(&mut self) -> Result<()> {
        self.do_due()?;
        self.find_dead()
    }

    fn do_due(&mut self) -> Result<()> {
        let now = Instant::now();
        while let Some(at) = self.agenda.iter().position(|(due, _)| *due <= now) {
            let (_, todo) = self.agenda.swap_remove(at);
            self.act(todo)?;
        }
        Ok(())
    }

    fn act(&mut self, todo: Todo) -> Result<()> {
        match todo {
            Todo::Restart(index) => self.start(index),
            Todo::Resume(index) => {
                if let Some(process) = &mut self.members[index].process {
                    process.cont()?;
                }
                self.members[index].paused = false;
                self.note(Fault::Pause, index, false);
                Ok(())
            }
        }
    }

    /// Actors that died by themselves: of a poison job, or of a defect.
    fn find_dead(&mut self) -> Result<()> {
        for index in 0..self.members.len() {
            let Some(process) = &mut self.members[index].process else { continue };
            let Some(status) = process.status()? else { continue };
            self.members[index].process = None;
            let finished = status.success() && self.members[index].name.starts_with("producer");
            if finished {
                continue;
            }
            if !self.poison {
                let name = &self.members[index].name;
                bail!("{name} ended by itself with {status}; see its log in {}", self.setup.folder.display());
            }
            self.note(Fault::Poison, index, true);
            self.rules.planned_faults -= 1;
            self.agenda.push((Instant::now(), Todo::Restart(index)));
        }
        Ok(())
    }

    /// Does what is still on the agenda, now.
    pub(super) fn finish_agenda(&mut self) {
        for (_, todo) in std::mem::take(&mut self.agenda) {
            if let Err(error) = self.act(todo) {
                self.fail(format!("could not {todo:?}: {error:#}"));
            }
        }
    }

    pub(super) fn dismiss_producers(&mut self) -> Result<()> {
        self.dismiss("producer")
    }

    pub(super) fn dismiss_workers(&mut self) -> Result<()> {
        self.dismiss("worker")
    }

    pub(super) fn dismiss_keepers(&mut self) -> Result<()> {
        self.dismiss("keeper")
    }

    pub(super) fn dismiss_listeners(&mut self) -> Result<()> {
        self.dismiss("listener")
    }

    /// Closes their standard inputs and waits for their ends.
    fn dismiss(&mut self, kind: &str) -> Result<()> {
        let mut leaving = Vec::new();
        for index in self.running(kind) {
            self.note(Fault::Terminate, index, true);
            self.rules.planned_faults -= 1;
            if let Some(mut process) = self.members[index].process.take() {
                drop(process.stdin());
                leaving.push((index, process));
            }
        }
        for (index, mut process) in leaving {
            self.farewell(index, &mut process)?;
            self.note(Fault::Terminate, index, false);
        }
        Ok(())
    }

    /// Starts everybody but producers who is not there.
    pub(super) fn revive_all(&mut self) -> Result<()> {
        for index in 0..self.members.len() {
            let member = &self.members[index];
            if !member.name.starts_with("producer") && member.process.is_none() {
                self.start(index)?;
            }
        }
        Ok(())
    }

    /// Bytes that an actor holds in memory now.
    ///
    /// # Errors
    /// When it does not run.
    pub fn rss_bytes(&self, index: usize) -> Result<u64> {
        let member = &self.members[index];
        member.process.as_ref().with_context(|| format!("{} does not run", member.name))?.rss_bytes()
    }

    /// About how many events producers have noted so far.
    pub fn produced_events(&self) -> u64 {
        let files = std::fs::read_dir(&self.setup.folder).into_iter().flatten().flatten();
        let ours = files.filter(|file| file.file_name().to_string_lossy().starts_with("producer"));
        let bytes: u64 = ours
            .filter(|file| file.path().extension().is_some_and(|ending| ending == "history"))
            .filter_map(|file| Some(file.metadata().ok()?.len()))
            .sum();
        bytes / PRODUCER_EVENT_BYTES
    }
}
