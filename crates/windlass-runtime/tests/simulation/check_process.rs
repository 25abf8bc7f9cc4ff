//! The invariants of processes: leases, shutdown, and which faults explain what.

use crate::fake::{
    Call,
    history::{Event, What, Why},
};
use std::{collections::BTreeMap, time::Duration};
use windlass_core::WorkerId;

/// How long a fault may have consequences: the longest pause of an engine, and a little.
const AFTERMATH: Duration = Duration::from_secs(10);
/// What a shutdown may take beyond its grace period: handlers that are told and dropped, a last claim, last
/// results, deregistering.
const SHUTDOWN_BOUND: Duration = Duration::from_millis(14_100);
/// How long a handler may go on after its worker learned that the lease is lost.
const EVICTION: Duration = Duration::from_millis(1_100);

#[derive(Default)]
pub struct Processes {
    by_client: BTreeMap<usize, Process>,
    workers: BTreeMap<WorkerId, Worker>,
    pub broken: Vec<String>,
}

#[derive(Default)]
struct Process {
    crashed: bool,
    faults: Vec<(Duration, Duration)>,
    stopping: Option<(Duration, Duration)>,
    aborting: Option<Duration>,
    stopped: Option<Duration>,
    /// When it learned that a lease was lost.
    told: BTreeMap<i32, Duration>,
}

struct Worker {
    client: usize,
    renewed: Duration,
    live: bool,
}

impl Processes {
    pub fn enter(&mut self, event: &Event) {
        let (at, client) = (event.at, event.client);
        let process = self.by_client.entry(client).or_default();
        match &event.what {
            What::Crashed => process.crashed = true,
            What::Fault { until, .. } => process.faults.push((at, *until)),
            What::Stopping { grace } => process.stopping = Some((at, *grace)),
            What::Aborting => process.aborting = Some(at),
            What::Stopped => {
                process.stopped = Some(at);
                let broken = process.check_stop(client, at);
                self.broken.extend(broken);
            }
            // A suspect's announcement is no reason to give up the epoch; the next heartbeat is.
            What::ToldLost { call: Call::Suspect, .. } => {}
            What::ToldLost { worker, .. } => {
                process.told.entry(worker.0).or_insert(at);
            }
            What::Asked { call, worker } => {
                let broken = process.check_call(*call, *worker, at);
                self.broken.extend(broken.map(|words| format!("{words}, at {event}")));
            }
            What::Registered { worker, .. } => {
                self.workers.insert(*worker, Worker { client, renewed: at, live: true });
            }
            What::Renewed(worker) => self.workers.get_mut(worker).expect("registered").renewed = at,
            What::LeaseEnded { worker, why } => self.lease_ended(*worker, *why, at),
            _ => {}
        }
    }

    fn lease_ended(&mut self, worker: WorkerId, why: Why, at: Duration) {
        let known = self.workers.get_mut(&worker).expect("registered");
        known.live = false;
        let (client, renewed) = (known.client, known.renewed);
        if why == Why::Overdue && !self.had_trouble(client, renewed, at) {
            self.broken.push(format!(
                "worker {worker} of client {client} lost its lease at {at:?} and no fault explains it"
            ));
        }
    }

    pub fn end(&mut self) {
        for (worker, known) in &self.workers {
            if known.live && !self.had_trouble(known.client, Duration::ZERO, Duration::MAX) {
                let client = known.client;
                self.broken.push(format!("worker {worker} of client {client} was never deregistered"));
            }
        }
        for (client, process) in &self.by_client {
            if process.stopping.is_some() && process.stopped.is_none() && !process.crashed {
                self.broken.push(format!("client {client} never came to its end"));
            }
        }
    }

    /// Whether this process died, or one of its calls did not work between these times or shortly before.
    pub fn had_trouble(&self, client: usize, from: Duration, to: Duration) -> bool {
        let Some(process) = self.by_client.get(&client) else { return false };
        let explains = |(at, until): &(Duration, Duration)| *at <= to && *until + AFTERMATH >= from;
        process.crashed || process.faults.iter().any(explains)
    }

    /// Whether the process knew before this moment that the lease was lost.
    pub fn was_told_lost(&self, client: usize, worker: i32, at: Duration) -> bool {
        self.by_client[&client].told.get(&worker).is_some_and(|told| *told < at)
    }

    /// Whether the process was told to stop before this moment.
    pub fn is_stopping(&self, client: usize, at: Duration) -> bool {
        self.by_client[&client].stopping.is_some_and(|(since, _)| since < at)
    }

    /// A handler ran from then to then.
    pub fn ran_on(&self, client: usize, worker: i32, from: Duration, to: Duration) -> Result<(), String> {
        let process = &self.by_client[&client];
        let Some(told) = process.told.get(&worker) else { return Ok(()) };
        // A worker that stops gives its handlers the grace period, whatever became of the lease.
        let stops = process.stopping.is_some_and(|(since, _)| since < *told + EVICTION);
        match to > from.max(*told) + EVICTION && !stops {
            true => Err(format!("its handler went on after the lease was known to be lost at {told:?}")),
            false => Ok(()),
        }
    }
}

impl Process {
    fn check_stop(&self, client: usize, at: Duration) -> Option<String> {
        let (since, grace) = self.stopping.expect("it was told to stop");
        let due = self.aborting.map_or(since + grace, |aborting| aborting.min(since + grace));
        let late = at > due + SHUTDOWN_BOUND;
        late.then(|| format!("client {client} was told to stop at {since:?}, stopped at {at:?}"))
    }

    fn check_call(&self, call: Call, worker: Option<WorkerId>, at: Duration) -> Option<String> {
        let stopping = self.stopping.is_some_and(|(since, _)| since < at);
        let lost = worker.and_then(|worker| self.told.get(&worker.0)).is_some_and(|told| *told < at);
        let of_a_loop =
            matches!(call, Call::Claim | Call::Settle | Call::Heartbeat | Call::Upkeep | Call::Register);
        if stopping && matches!(call, Call::Claim | Call::Register) {
            return Some("a worker that stops asks for work".to_owned());
        }
        if self.stopped.is_some_and(|stopped| stopped < at) && of_a_loop {
            return Some("a worker that ended goes on".to_owned());
        }
        let of_a_lease = matches!(call, Call::Claim | Call::Settle | Call::Heartbeat);
        (lost && of_a_lease).then(|| "a worker uses a lease that it knows is lost".to_owned())
    }
}
