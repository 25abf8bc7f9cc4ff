//! Steps sessions in the order asked for, and knows who waits for whom.

use super::{
    place::Place,
    sessions::{Phase, Stop},
};
use crate::permuter::{
    call::{Call, Reply},
    round::{Round, first_jobs},
    scenario::{End, Scenario},
};
use anyhow::bail;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};
use tokio_postgres::types::Type;

/// How long one order may take before its sessions count as stuck.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long a statement may run before the server is asked whether it waits for somebody.
const PATIENCE: Duration = Duration::from_millis(1);

const WAITING: &str = "
SELECT l.pid, bool_or(l.locktype = 'advisory' AND l.classid::bigint = ANY ($2))
FROM pg_locks l WHERE NOT l.granted AND l.pid = ANY ($1) GROUP BY l.pid";

/// Lets the sessions take their steps in this order; then whoever is left goes on, the first session first.
pub(crate) async fn play(
    place: &mut Place,
    scenario: &Scenario,
    order: &[usize],
    round: &mut Round,
) -> anyhow::Result<()> {
    let (sender, replies) = mpsc::unbounded_channel();
    let housekeeping_waits = scenario.patches.iter().any(|patch| patch.function == "truncate_segment");
    let firsts = first_jobs(scenario);
    place.sessions.iter_mut().for_each(super::sessions::Session::reset);
    let mut stepper = Stepper {
        place,
        scenario,
        firsts,
        round,
        sender,
        replies,
        housekeeping_waits,
        began: Instant::now(),
    };
    for &session in order {
        stepper.step(session).await?;
        stepper.pay().await?;
    }
    while let Some(session) = stepper.left() {
        stepper.step(session).await?;
    }
    Ok(())
}

struct Stepper<'a> {
    place: &'a mut Place,
    scenario: &'a Scenario,
    firsts: Vec<Vec<usize>>,
    round: &'a mut Round,
    sender: mpsc::UnboundedSender<(usize, Reply)>,
    replies: mpsc::UnboundedReceiver<(usize, Reply)>,
    /// Whether housekeeping waits for locks as long as it takes, instead of giving up.
    housekeeping_waits: bool,
    began: Instant,
}

impl Stepper<'_> {
    /// The session takes one step, and everybody comes to rest.
    async fn step(&mut self, number: usize) -> anyhow::Result<()> {
        let session = &mut self.place.sessions[number];
        match std::mem::replace(&mut session.phase, Phase::Idle) {
            Phase::Idle => self.begin(number).await?,
            Phase::Early { call, segment } => {
                self.place.sessions[number].phase = Phase::Early { call: call.clone(), segment };
                self.start(number, call).await?;
            }
            Phase::Running { call, tick, stop } => {
                session.phase = Phase::Running { call, tick, stop };
                match stop {
                    Stop::Gate => self.open(number).await?,
                    _ if self.all_blocked() => self.resolve().await?,
                    _ => self.place.sessions[number].owed += 1,
                }
            }
            Phase::Answered { call, reply } => self.end(number, &call, &reply).await?,
        }
        self.rest().await
    }

    /// Takes the steps that were due while a session was blocked, now that it is free.
    async fn pay(&mut self) -> anyhow::Result<()> {
        let free = |s: &super::sessions::Session| {
            s.owed > 0 && !matches!(s.phase, Phase::Running { stop: Stop::Blocked | Stop::None, .. })
        };
        while let Some(number) = self.place.sessions.iter().position(free) {
            self.place.sessions[number].owed -= 1;
            self.step(number).await?;
        }
        Ok(())
    }

    /// A session that has something left to do, one that can go on first.
    fn left(&self) -> Option<usize> {
        let sessions = || self.scenario.sessions.iter().zip(&self.place.sessions).enumerate();
        let blocked = |phase: &Phase| matches!(phase, Phase::Running { stop: Stop::Blocked, .. });
        let unfinished =
            || sessions().filter(|(_, (ops, s))| s.begun < ops.len() || !matches!(s.phase, Phase::Idle));
        let free = unfinished().find(|(_, (_, session))| !blocked(&session.phase));
        free.or_else(|| unfinished().next()).map(|(number, _)| number)
    }

    /// Whether everybody who has begun waits for another.
    fn all_blocked(&self) -> bool {
        let blocked = |phase: &Phase| matches!(phase, Phase::Running { stop: Stop::Blocked, .. });
        self.place.sessions.iter().all(|s| matches!(s.phase, Phase::Idle) || blocked(&s.phase))
    }

    /// Begins the session's next operation.
    async fn begin(&mut self, number: usize) -> anyhow::Result<()> {
        let begun = self.place.sessions[number].begun;
        let Some(op) = self.scenario.sessions[number].get(begun) else { return Ok(()) };
        self.place.sessions[number].begun += 1;
        let Some(call) = self.round.names.call(op.act, self.firsts[number][begun]) else {
            self.round.note(&format!("{}: nothing to do for {:?}", name(number), op.act));
            return Ok(());
        };
        if op.early {
            self.round.note(&format!("{}: BEGIN, takes its transaction id", name(number)));
            let schema = Arc::clone(&self.place.schema);
            return self.place.sessions[number].begin_early(&schema, call).await;
        }
        self.start(number, call).await
    }

    async fn start(&mut self, number: usize, call: Call) -> anyhow::Result<()> {
        self.round.note(&format!("{}: BEGIN; {call:?}", name(number)));
        let tick = self.round.book.starts();
        let (place, queue) = (&mut *self.place, &self.round.names.queue);
        let to = (&place.store, &place.schema, queue);
        place.sessions[number].start(to, (number, tick), call, &self.sender).await
    }

    /// Opens the gate that the session stands at.
    async fn open(&mut self, number: usize) -> anyhow::Result<()> {
        let session = &mut self.place.sessions[number];
        session.passed += 1;
        if let Phase::Running { stop, .. } = &mut session.phase {
            *stop = Stop::None;
        }
        self.round.note(&format!("{}: goes on behind gate {}", name(number), session.passed));
        let open = "SELECT pg_advisory_unlock($1, $2)";
        let parameters = [(&session.gates as _, Type::INT4), (&session.passed as _, Type::INT4)];
        self.place.desk.client.query_typed(open, &parameters).await?;
        Ok(())
    }

    async fn end(&mut self, number: usize, call: &Call, reply: &Reply) -> anyhow::Result<()> {
        let begun = self.place.sessions[number].begun;
        let asked = self.scenario.sessions[number][begun - 1].end;
        let end = if reply.is_done() { asked } else { End::Rollback };
        self.round.note(&format!("{}: {end:?}", name(number)));
        self.place.sessions[number].end(end).await?;
        match end {
            End::Commit => self.round.book.committed(call, reply),
            End::Rollback => {
                self.round.book.undone(reply);
                self.round.names.forget(call, reply);
            }
        }
        Ok(())
    }

    /// Waits until every statement under way has answered, stands at a gate or waits for another session.
    async fn rest(&mut self) -> anyhow::Result<()> {
        while self.place.sessions.iter().any(super::sessions::Session::is_running) {
            if self.began.elapsed() > DEADLINE {
                bail!("sessions are stuck after {DEADLINE:?}: {:#?}", self.round.trace);
            }
            match tokio::time::timeout(PATIENCE, self.replies.recv()).await {
                Ok(Some((number, reply))) => self.answered(number, reply).await?,
                _ if self.all_stopped().await? => break,
                _ => {}
            }
        }
        Ok(())
    }

    /// Everybody waits for everybody: the server finds that out by itself and refuses one of them. Or one of them did not
    /// wait for another of these, but for a moment for the server itself (autovacuum locks catalogs, too), and goes on.
    async fn resolve(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + DEADLINE;
        while Instant::now() < deadline {
            match tokio::time::timeout(PATIENCE, self.replies.recv()).await {
                Ok(Some((number, reply))) => return self.answered(number, reply).await,
                _ if !self.all_stopped().await? || !self.all_blocked() => return Ok(()),
                _ => {}
            }
        }
        bail!("all sessions wait and nobody is refused: {:#?}", self.round.trace)
    }

    /// Asks the server who waits. Whether all do.
    async fn all_stopped(&mut self) -> anyhow::Result<bool> {
        let running: Vec<_> = self.place.sessions.iter().filter(|s| s.is_running()).collect();
        let pids: Vec<i32> = running.iter().map(|session| session.pid).collect();
        let gates: Vec<i64> = running.iter().map(|session| i64::from(session.gates)).collect();
        let asked = [(&pids as _, Type::INT4_ARRAY), (&gates as _, Type::INT8_ARRAY)];
        let rows = self.place.desk.client.query_typed(WAITING, &asked).await?;
        let waiting: Vec<(i32, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut all = true;
        for (number, session) in self.place.sessions.iter_mut().enumerate() {
            let pid = session.pid;
            let Phase::Running { call, stop, .. } = &mut session.phase else { continue };
            let now = match waiting.iter().find(|(waiter, _)| *waiter == pid) {
                Some((_, true)) => Stop::Gate,
                // It gives up by itself soon.
                Some(_) if matches!(call, Call::Maintain) && !self.housekeeping_waits => Stop::None,
                Some(_) => Stop::Blocked,
                None => Stop::None,
            };
            if now == Stop::Blocked && *stop != Stop::Blocked {
                self.round.trace.push(format!("{}: is blocked", name(number)));
            }
            *stop = now;
            all &= now != Stop::None;
        }
        Ok(all)
    }

    async fn answered(&mut self, number: usize, reply: Reply) -> anyhow::Result<()> {
        let session = &mut self.place.sessions[number];
        let passed = std::mem::take(&mut session.passed);
        let Phase::Running { call, tick, .. } = std::mem::replace(&mut session.phase, Phase::Idle) else {
            bail!("a reply came to a session that asked nothing");
        };
        self.round.note(&format!("{}: -> {reply:?}", name(number)));
        self.round.book.answered(&call, &reply, tick, self.scenario.may_deadlock);
        self.round.names.learn(&call, &reply);
        let gates = session.gates;
        session.phase = Phase::Answered { call, reply };
        if passed > 0 {
            let shut = "SELECT pg_advisory_lock($1, n) FROM generate_series(1, $2) AS n";
            let which = [(&gates as _, Type::INT4), (&passed as _, Type::INT4)];
            self.place.desk.client.query_typed(shut, &which).await?;
        }
        Ok(())
    }
}

fn name(session: usize) -> &'static str {
    ["A", "B", "C"].get(session).copied().unwrap_or("?")
}
