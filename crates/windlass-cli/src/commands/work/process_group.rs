//! A program that runs in a process group of its own, so that what it started ends with it.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, test_kill_process_group, waitid,
    waitpgid,
};
use std::{fs, time::Duration};
use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};

/// How long a program that was told to stop may take before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long one waits for those that were killed.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// How long a stop takes at most, and a moment.
pub(super) const LONGEST_STOP: Duration =
    STOP_GRACE.saturating_add(KILL_GRACE).saturating_add(Duration::from_secs(1));
/// How often one looks whether all that it started ended.
const LOOK: Duration = Duration::from_millis(20);

/// A program that runs, with everything it started: dropped before its end, all of it is killed.
pub(super) struct Running {
    pub(super) child: Child,
    /// Its group while it is being stopped, whoever of it is left.
    stopping: Option<Pid>,
}

impl Running {
    pub(super) fn new(child: Child) -> Self {
        Self { child, stopping: None }
    }

    /// The group, which is named by the number of its leader. Without an id that one was waited for, and its number may be
    /// somebody else's by now; it is nobody's while others of the group are left.
    fn group(&self) -> Option<Pid> {
        self.stopping.or_else(|| Pid::from_raw(i32::try_from(self.child.id()?).ok()?))
    }

    /// Waits until the program itself has ended, whatever it started goes on. Nobody was told of its end yet, so that the number of its
    /// group is nobody else's: [`Self::stop`] ends the others.
    pub(super) async fn ended_itself(&mut self) {
        let (mut children, leader) = (signal(SignalKind::child()), self.group());
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Some(leader) = leader
            && let Ok(None) = waitid(WaitId::Pid(leader), how)
        {
            match &mut children {
                Ok(children) => drop(children.recv().await),
                Err(_) => sleep(LOOK).await,
            }
        }
    }

    /// Asks the program and all that it started to stop, and waits; kills them when they take too long.
    pub(super) async fn stop(&mut self) {
        self.stopping = self.group();
        self.signal(Signal::TERM);
        if timeout(STOP_GRACE, self.all_ended()).await.is_err() {
            self.signal(Signal::KILL);
            // What does not end by this hangs in the system.
            let _ = timeout(KILL_GRACE, self.all_ended()).await;
        }
        self.stopping = None;
    }

    /// A shell dies of the signal although what it runs goes on.
    async fn all_ended(&mut self) {
        let _ = self.child.wait().await;
        while self.stopping.is_some_and(is_there) {
            sleep(LOOK).await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group() {
            // It fails when all of them ended just now, which is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// Whether any of a group is left, whose leader was waited for. Process 1, as in a container, gets the others as its children when their parent
/// ended, and they stay until it waits for them.
fn is_there(group: Pid) -> bool {
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    test_kill_process_group(group).is_ok() && one_runs(group)
}

/// Whether one of a group has not ended yet. The others may stay for long: until process 1 looks after them. Only Linux tells.
fn one_runs(group: Pid) -> bool {
    let (true, Ok(all)) = (cfg!(target_os = "linux"), fs::read_dir("/proc")) else { return true };
    let group = group.as_raw_nonzero().to_string();
    all.flatten().filter_map(|process| fs::read_to_string(process.path().join("stat")).ok()).any(|stat| {
        // The name, which comes first, may have spaces and brackets; behind it the state, the parent and the group.
        let mut fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
        !matches!(fields.next(), Some("Z" | "X")) && fields.nth(1) == Some(&group)
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// A signal, as people know it.
pub(super) fn name_of(signal: i32) -> String {
    let known = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::TERM, "SIGTERM"),
    ];
    let name = known.iter().find(|known| known.0.as_raw() == signal).map(|known| known.1);
    name.map_or_else(|| signal.to_string(), |name| format!("{signal} ({name})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{getpid, set_child_subreaper};
    use std::process::Stdio;
    use tokio::{
        io::{AsyncBufReadExt, BufReader},
        process::Command,
    };

    /// As process 1 of a container gets them: those whose parent ended are ours.
    #[tokio::test]
    async fn what_a_program_leaves_behind_is_waited_for_and_ends() {
        set_child_subreaper(Some(getpid())).unwrap();
        let program = "(sleep 1000; echo) & (sleep 1000; echo) & echo started; exec sleep 1000";
        let mut command = Command::new("sh");
        command.args(["-c", program]).process_group(0).stdout(Stdio::piped());
        let mut running = Running::new(command.spawn().unwrap());
        let said = BufReader::new(running.child.stdout.take().unwrap());
        assert_eq!(said.lines().next_line().await.unwrap().as_deref(), Some("started"));
        running.stopping = running.group();
        running.signal(Signal::TERM);
        timeout(Duration::from_secs(60), running.all_ended()).await.unwrap();
    }
}
