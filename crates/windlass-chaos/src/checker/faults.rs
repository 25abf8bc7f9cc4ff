use crate::history::{Fate, Fault, History, What};
use std::collections::HashMap;

/// A fault still explains what happens this long after it ended, and a lease longer: connections come back
/// with backoff, and rescues look once a second.
pub(super) const AFTERMATH_NS: u64 = 4_000_000_000;

/// How long a process may have been dead or starved before anybody noticed: a core dump takes its time.
const UNNOTICED_NS: u64 = 5_000_000_000;

/// The server may be going down already while the answer to a claim is on its way.
pub(super) const GOING_DOWN_NS: u64 = 2_000_000_000;

/// How a worker came to lose its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Others declared it dead: something kept its heartbeats away.
    Rescued,
    /// It handed everything back, or the store forgot: any fault may be why.
    Other,
}

/// A fault with its time. `target`: the number of the process it hits, none for all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) fault: Fault,
    pub(super) target: Option<i64>,
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// A rescue call of one process: when it was sent, and when answered, if ever.
#[derive(Clone, Copy, Debug)]
struct RescueCall {
    sent: u64,
    done: u64,
}

/// What may explain that a worker lost its jobs.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) windows: Vec<Window>,
    /// When each registration was declared dead by a call, sent and noted.
    rescued: HashMap<i32, (u64, u64)>,
    deregistered: HashMap<i32, u64>,
    /// Rescues that nobody heard the answer of.
    unanswered: Vec<u64>,
    /// Answered ones, for a claim that comes between a rescue's commit and its note.
    calls: Vec<RescueCall>,
    /// When each registration sent the last call that the store took from it: it was not declared dead before.
    alive: HashMap<i32, u64>,
    pub(super) leases: HashMap<i32, u64>,
    pub(super) suspects: HashMap<i32, Vec<u64>>,
}

impl Faults {
    pub(super) fn of(history: &History) -> Self {
        let mut faults = Self::default();
        let mut open: HashMap<(Fault, Option<i64>), Vec<usize>> = HashMap::new();
        let mut calls: HashMap<(u32, i64), u64> = HashMap::new();
        for recorded in &history.events {
            let at = recorded.event.at;
            match recorded.event.what {
                What::Fault { fault, target, begins: true } => {
                    open.entry((fault, target)).or_default().push(faults.windows.len());
                    // A process that killed itself was dead before anybody noticed.
                    let late = matches!(fault, Fault::Poison | Fault::Starved | Fault::SlowDisk);
                    let begin = if late { at.saturating_sub(UNNOTICED_NS) } else { at };
                    faults.windows.push(Window { fault, target, begin, end: u64::MAX });
                }
                What::Fault { fault, target, begins: false } => {
                    if let Some(index) = open.get_mut(&(fault, target)).and_then(Vec::pop) {
                        faults.windows[index].end = at;
                    }
                }
                What::RescueSent { call } => {
                    calls.insert((recorded.process, call), at);
                }
                What::Rescued { call, worker } => {
                    let sent = calls.get(&(recorded.process, call)).copied().unwrap_or(at);
                    faults.rescued.entry(worker).or_insert((sent, at));
                }
                What::RescueDone { call } => {
                    if let Some(sent) = calls.remove(&(recorded.process, call)) {
                        faults.calls.push(RescueCall { sent, done: at });
                    }
                }
                What::Claimed { worker, sent, .. }
                | What::Settled { worker, fate: Fate::Accepted, sent, .. } => {
                    let alive = faults.alive.entry(worker).or_default();
                    *alive = sent.max(*alive);
                }
                What::DeregisterSent { worker } => {
                    faults.deregistered.entry(worker).or_insert(at);
                }
                What::Registered { worker, lease_ns, .. } => {
                    faults.leases.insert(worker, lease_ns.unsigned_abs());
                }
                What::Suspected { worker, id: Some(_) } => {
                    faults.suspects.entry(worker).or_default().push(at);
                }
                _ => {}
            }
        }
        faults.unanswered = calls.into_values().collect();
        faults.unanswered.sort_unstable();
        faults
    }

    /// When each fault of these kinds began, in order.
    pub(super) fn begins_of(&self, kinds: &[Fault]) -> Vec<u64> {
        self.windows
            .iter()
            .filter(|window| kinds.contains(&window.fault))
            .map(|window| window.begin)
            .collect()
    }

    /// When each fault of these kinds began and ended, in order.
    pub(super) fn bounds_of(&self, kinds: &[Fault]) -> Vec<u64> {
        let ours = self.windows.iter().filter(|window| kinds.contains(&window.fault));
        let mut bounds: Vec<u64> = ours.flat_map(|window| [window.begin, window.end]).collect();
        bounds.sort_unstable();
        bounds
    }

    /// When the worker was noted to be declared dead.
    pub(super) fn noted_dead(&self, worker: i32) -> Option<u64> {
        self.rescued.get(&worker).map(|(_, noted)| *noted)
    }

    /// Whether the worker may have been declared dead before `at`: a rescue says so, or one whose answer
    /// nobody heard was under way. But not if the store took later what it wrote.
    pub(super) fn may_be_dead(&self, worker: i32, at: u64) -> bool {
        if self.was_alive(worker, at) {
            return false;
        }
        match self.rescued.get(&worker) {
            Some((sent, _)) => *sent <= at,
            None => {
                self.unanswered.first().is_some_and(|sent| *sent <= at)
                    || self.calls.iter().any(|call| call.sent <= at && at <= call.done)
            }
        }
    }

    /// Whether the store took something later that the worker wrote. A store that forgot what was between may have forgotten a rescue.
    fn was_alive(&self, worker: i32, at: u64) -> bool {
        let forgets = |window: &Window| matches!(window.fault, Fault::Failover | Fault::Restore);
        let alive = self.alive.get(&worker).copied().unwrap_or_default();
        alive > at
            && !self.windows.iter().any(|window| forgets(window) && (at..=alive).contains(&window.begin))
    }

    /// Whether the worker had begun to hand everything back before `at`.
    pub(super) fn had_deregistered(&self, worker: i32, at: u64) -> bool {
        self.deregistered.get(&worker).is_some_and(|sent| *sent <= at)
    }

    /// Whether some worker began to hand everything back between these times.
    pub(super) fn some_deregistered(&self, after: u64, before: u64) -> bool {
        self.deregistered.values().any(|sent| (after..before).contains(sent))
    }

    /// A fault that hit the process, or all, between `from` and `until`, its aftermath included.
    pub(super) fn explains(
        &self,
        loss: Loss,
        process: i64,
        lease_ns: u64,
        from: u64,
        until: u64,
    ) -> Option<Fault> {
        // A dump harms nobody.
        let fits = |fault: Fault| fault != Fault::Dump && (loss == Loss::Other || stops_heartbeats(fault));
        let hits = |window: &&Window| {
            let after = window.end.saturating_add(AFTERMATH_NS).saturating_add(lease_ns);
            let hit = window.target.is_none_or(|target| target == process);
            hit && fits(window.fault) && window.begin <= until && after >= from
        };
        let hitting = self.windows.iter().filter(hits);
        hitting.max_by_key(|window| (window.target.is_some(), window.begin)).map(|window| window.fault)
    }

    /// Whether the database may have forgotten a claim that was made at `from` before `until`: claims
    /// commit asynchronously.
    pub(super) fn forgot_claims(&self, from: u64, until: u64) -> bool {
        let forgets = |window: &Window| {
            matches!(window.fault, Fault::DatabaseCrash | Fault::Failover)
                && window.begin <= until
                && window.end.saturating_add(GOING_DOWN_NS) >= from
        };
        self.windows.iter().any(forgets) || self.moved_between(from, until)
    }

    /// Whether a restored dump lies between: what it knows is older than `from`, perhaps.
    pub(super) fn moved_between(&self, from: u64, until: u64) -> bool {
        let between = |window: &Window| from < window.begin && window.begin <= until;
        self.windows.iter().any(|window| window.fault == Fault::Restore && between(window))
    }
}

/// Whether a fault keeps a worker from renewing its lease in time. A connection that is cut is not enough:
/// the next heartbeat takes another.
fn stops_heartbeats(fault: Fault) -> bool {
    !matches!(
        fault,
        Fault::BackendTerminated | Fault::CommitCut | Fault::NotificationsLost | Fault::HeldSnapshot
    )
}
