//! A store in memory whose statements are counted, with the steps of SQLite's virtual machine that they take.

use crate::{claim, error::Outcome, migrate, settle, settlement::Settlement, tx::Memory, tx::Tx, workers};
use rusqlite::{
    Connection, StatementStatus,
    trace::{TraceEvent, TraceEventCodes},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};
use windlass_core::{
    Claim, ClaimRequest, Completion, JobSet, QueueDemand, SettleRequest, WorkerId, WorkerSpec,
};

/// A worker of the default queue and all kinds.
pub(crate) fn any_worker() -> WorkerSpec {
    WorkerSpec {
        name: "w".into(),
        queues: vec!["default".into()],
        kinds: vec![],
        lease: Duration::from_secs(60),
        program: Default::default(),
    }
}

/// What ran in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) statements: Vec<String>,
    pub(crate) steps: i64,
}

#[derive(Default)]
struct Trace {
    work: Work,
    /// The steps of each statement until now, which SQLite adds up.
    before: HashMap<String, i64>,
}

pub(crate) struct Traced {
    pub(crate) conn: Connection,
    memory: Memory,
    trace: Arc<Mutex<Trace>>,
    pub(crate) worker: WorkerId,
    /// Every statement that ran.
    pub(crate) all: BTreeSet<String>,
    /// The time of its transactions.
    pub(crate) now: i64,
}

impl Traced {
    pub(crate) fn new() -> Self {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.set_prepared_statement_cache_capacity(1_000);
        migrate::migrate(&conn).map_err(crate::error::Fault::into_error).unwrap();
        let trace: Arc<Mutex<Trace>> = Arc::default();
        let noted = Arc::clone(&trace);
        let note = move |event: TraceEvent<'_>| {
            let TraceEvent::Profile(statement, _) = event else { return };
            let (sql, steps) =
                (statement.sql().into_owned(), i64::from(statement.get_status(StatementStatus::VmStep)));
            let mut trace = noted.lock().unwrap();
            let before = trace.before.insert(sql.clone(), steps).unwrap_or(0);
            trace.work.steps += if steps < before { steps } else { steps - before };
            trace.work.statements.push(sql);
        };
        conn.trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(note)).unwrap();
        let mut new = Self {
            conn,
            memory: Memory::default(),
            trace,
            worker: WorkerId(0),
            all: BTreeSet::new(),
            now: 1_000_000,
        };
        new.worker = new.run(|tx| workers::register(tx, &any_worker())).0.worker;
        new
    }

    /// One transaction.
    pub(crate) fn run<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Outcome<T>) -> (T, Work) {
        self.conn.execute_batch("BEGIN IMMEDIATE").unwrap();
        std::mem::take(&mut self.trace.lock().unwrap().work);
        let done = Tx::begin(&self.conn, &mut self.memory, self.now).and_then(|mut tx| {
            let done = work(&mut tx)?;
            tx.finish()?;
            Ok(done)
        });
        let done = done.map_err(crate::error::Fault::into_error).unwrap();
        let work = std::mem::take(&mut self.trace.lock().unwrap().work);
        self.conn.execute_batch("COMMIT").unwrap();
        self.all.extend(work.statements.iter().cloned());
        (done, work)
    }

    /// Claims jobs of the default queue.
    pub(crate) fn claim(&mut self, most: u32) -> (Vec<Claim>, Work) {
        let request = ClaimRequest { worker: self.worker, queues: vec![QueueDemand::new("default", most)] };
        let (claimed, work) = self.run(|tx| claim::claim(tx, &request, 0));
        (claimed.0.claims, work)
    }

    /// Completes all of the claims.
    pub(crate) fn complete(&mut self, claims: &[Claim]) -> Work {
        self.complete_jobs(claims, &JobSet::Rest)
    }

    /// Completes these jobs of each claim.
    pub(crate) fn complete_jobs(&mut self, claims: &[Claim], jobs: &JobSet) -> Work {
        let completion = |claim: &Claim| Completion {
            claim: claim.reference,
            jobs: jobs.clone(),
            count: claim.jobs.len() as u32,
        };
        let completions = claims.iter().map(completion).collect();
        let request = SettleRequest { worker: self.worker, completions, exceptions: vec![] };
        self.settle(&request).1
    }

    /// Settles a request that is one part.
    pub(crate) fn settle(&mut self, request: &SettleRequest) -> (settle::Reply, Work) {
        let part = Settlement::parts(request).remove(0);
        self.run(|tx| settle::settle(tx, &part, 0))
    }

    /// What the statements that ran would read from end to end.
    pub(crate) fn scans(&self) -> Vec<String> {
        let mut scans = Vec::new();
        for sql in self.all.iter().filter(|sql| !sql.starts_with("--") || sql.contains("INSERT")) {
            let mut plan = self.conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let parameters = vec![rusqlite::types::Null; plan.parameter_count()];
            let mut rows = plan.query(rusqlite::params_from_iter(parameters)).unwrap();
            while let Some(row) = rows.next().unwrap() {
                let line: String = row.get(3).unwrap();
                if line.starts_with("SCAN") {
                    scans.push(format!("{line} in {sql}"));
                }
            }
        }
        scans
    }
}
