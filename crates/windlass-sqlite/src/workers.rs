//! Workers: registration, signs of life, leaving, and what happens to the jobs of those that died.

use crate::{
    cancel_request,
    clock::{micros, until},
    error::{Fault, Outcome},
    key_rates,
    lease::{HandBack, Lease, OpenJob},
    limits, migrate,
    room::Room,
    settings, slots,
    tx::Tx,
};
use rusqlite::{OptionalExtension, Params, params};
use std::time::Duration;
use windlass_core::{
    ErrorKind, EventType, Heartbeat, JobId, Load, Program, Registration, RescueReport, WorkerId, WorkerSpec,
};

/// The most transactions of one call of `rescue`; the next call goes on.
pub(crate) const RESCUE_MAX: u32 = 64;
/// Sharing a worker with a killer never raises a job's crash count above this: from here on the engine
/// runs it alone, and only a crash that it then causes counts.
const INNOCENT_CRASHES: u16 = 2;

const INSERT: &str =
    "INSERT INTO worker (name, queues, kinds, lease, started_at, heartbeat_at, in_touch_since, version, program, app_version, engine)
    VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?5, ?6, ?7, ?8, ?9)";
const BEAT: &str = "UPDATE worker SET heartbeat_at = ?2, memory_bytes = ?3, jobs_per_second = ?4,
    in_touch_since = CASE WHEN ?2 BETWEEN heartbeat_at AND heartbeat_at + lease / 2 THEN in_touch_since ELSE ?2 END
    WHERE id = ?1 AND ended_at IS NULL";
const DRAIN: &str = "UPDATE worker SET draining_at = coalesce(draining_at, ?2) WHERE id = ?1 AND ended_at IS NULL AND queues <> '[]'";
const DRAINING: &str = "SELECT draining_at IS NOT NULL FROM worker WHERE id = ?1";
const SUSPECT: &str = "UPDATE worker SET suspect = ?2 WHERE id = ?1 AND ended_at IS NULL";
const END: &str = "UPDATE worker SET ended_at = ?2 WHERE id = ?1 AND ended_at IS NULL";
// A heartbeat from the future is one from before the clock was set back: its lease starts anew.
const CLOCK_WENT_BACK: &str =
    "UPDATE worker SET heartbeat_at = ?1, in_touch_since = ?1 WHERE ended_at IS NULL AND heartbeat_at > ?1";
// The same of an end: all that were there before the clock was set back may have gone since.
const ENDS_TO_COME: &str = "UPDATE worker SET ended_at = ?1 WHERE ended_at > ?1";
// While nobody can reach the file (the machine slept) the leases of the living end too: the rescuer must have been in touch
// for as long as the lease of the other.
const EXPIRED: &str = "SELECT w.id, w.suspect FROM worker r, worker w
    WHERE r.id = ?2 AND r.ended_at IS NULL AND r.heartbeat_at + r.lease / 2 >= ?1
    AND w.ended_at IS NULL AND w.heartbeat_at + w.lease < ?1 AND r.in_touch_since + w.lease <= ?1
    ORDER BY w.heartbeat_at LIMIT 1";
// One whose jobs are not all taken yet: whoever rescues goes on.
const ENDED: &str = "WITH RECURSIVE holder (id) AS (SELECT min(worker) FROM claim INDEXED BY claim_open WHERE open > 0
        UNION ALL SELECT (SELECT min(worker) FROM claim INDEXED BY claim_open WHERE open > 0 AND worker > holder.id) FROM holder WHERE id IS NOT NULL)
    SELECT w.id, w.suspect FROM holder JOIN worker w ON w.id = holder.id WHERE w.ended_at IS NOT NULL LIMIT 1";
const NEXT_END: &str = "SELECT min(heartbeat_at + lease) FROM worker WHERE ended_at IS NULL";

/// Registers a worker; its queues are created.
pub(crate) fn register(tx: &mut Tx<'_>, spec: &WorkerSpec) -> Outcome<Registration> {
    follow_clock(tx)?;
    for queue in &spec.queues {
        tx.queue(queue)?;
    }
    let (queues, kinds) = (json(&spec.queues)?, json(&spec.kinds)?);
    let Program { name: program, app_version, engine } = &spec.program;
    let lease = micros(spec.lease);
    let row =
        params![spec.name, queues, kinds, lease, tx.now, migrate::VERSION, program, app_version, engine];
    tx.conn.prepare_cached(INSERT)?.execute(row)?;
    let id = i32::try_from(tx.conn.last_insert_rowid()).map_err(|_| {
        Fault::refused(ErrorKind::Internal, "the worker numbers of this database are used up")
    })?;
    Ok(Registration { worker: WorkerId(id) })
}

fn json(names: &[String]) -> Outcome<String> {
    serde_json::to_string(names)
        .map_err(|cause| Fault::refused(ErrorKind::Internal, format!("cannot write {names:?}: {cause}")))
}

/// A sign of life.
pub(crate) fn heartbeat(tx: &mut Tx<'_>, worker: WorkerId, load: Load) -> Outcome<Heartbeat> {
    follow_clock(tx)?;
    let memory = load.memory_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let said = params![worker.0, tx.now, memory, load.jobs_per_second];
    let beaten = tx.conn.prepare_cached(BEAT)?.execute(said)?;
    if beaten == 0 {
        return Err(Fault::lease_lost(worker));
    }
    let mut heartbeat = Heartbeat::default();
    heartbeat.cancel = cancel_request::of_worker(tx, worker)?;
    heartbeat.limited = limits::of_worker(tx, worker)?;
    heartbeat.drain = tx.conn.prepare_cached(DRAINING)?.query_one([worker.0], |row| row.get(0))?;
    Ok(heartbeat)
}

/// Asks a worker to take no more jobs.
pub(crate) fn drain(tx: &mut Tx<'_>, worker: WorkerId) -> Outcome<()> {
    if tx.conn.prepare_cached(DRAIN)?.execute(params![worker.0, tx.now])? == 0 {
        return Err(Fault::Refused(WorkerSpec::none_to_drain(worker)));
    }
    tx.request()
}

/// Notes the job that the worker runs alone.
pub(crate) fn suspect(tx: &mut Tx<'_>, worker: WorkerId, job: Option<JobId>) -> Outcome<()> {
    let noted = tx.conn.prepare_cached(SUSPECT)?.execute(params![worker.0, job.map(|job| job.0)])?;
    if noted == 0 { Err(Fault::lease_lost(worker)) } else { Ok(()) }
}

/// Hands back what a worker holds, or a part of it, since others wait; with the last of it the worker ends, so that one that dies meanwhile is rescued. Whether
/// there is more. Nothing to do when it ended before.
pub(crate) fn deregister(tx: &mut Tx<'_>, worker: WorkerId) -> Outcome<bool> {
    if !tx.is_live(worker)? {
        return Ok(false);
    }
    let more = take_some(tx, worker, EventType::Returned, |_| HandBack::Available { crashes: 0 })?.more;
    if !more {
        end(tx, worker)?;
    }
    Ok(more)
}

fn end(tx: &mut Tx<'_>, worker: WorkerId) -> Outcome<()> {
    tx.conn.prepare_cached(END)?.execute(params![worker.0, tx.now])?;
    tx.conn.prepare_cached("DELETE FROM leader WHERE worker = ?1")?.execute([worker.0])?;
    slots::forget_worker(tx, worker)
}

/// Declares a worker dead whose lease has ended, and takes jobs from it, or more of them from one that was declared dead before. Those may be a hundred thousand: the rest, and
/// the next worker, have transactions of their own. Whether there is more to do at once.
pub(crate) fn rescue(tx: &mut Tx<'_>, rescuer: WorkerId) -> Outcome<(RescueReport, bool)> {
    follow_clock(tx)?;
    let mut report = RescueReport::default();
    let mut dead = find(tx, EXPIRED, params![tx.now, rescuer.0])?;
    match dead {
        Some((worker, _)) => {
            end(tx, worker)?;
            report.workers.push(worker);
        }
        None => dead = find(tx, ENDED, [])?,
    }
    let mut more = false;
    if let Some((worker, suspect)) = dead {
        more = take_back(tx, worker, suspect, &mut report)?;
    }
    let next: Option<i64> = tx.conn.prepare_cached(NEXT_END)?.query_one([], |row| row.get(0))?;
    let next_end = next.map(|at| until(at, tx.now));
    report.next_end = if more { Some(Duration::ZERO) } else { next_end };
    let go_on = dead.is_some() && report.next_end == Some(Duration::ZERO);
    Ok((report, go_on))
}

/// Takes jobs from a worker that was declared dead. Whether it has more.
fn take_back(
    tx: &mut Tx<'_>,
    worker: WorkerId,
    suspect: Option<JobId>,
    report: &mut RescueReport,
) -> Outcome<bool> {
    let max_crashes = settings::read(tx.conn)?.max_crashes;
    let taken = take_some(tx, worker, EventType::Rescued, |job| after_crash(job, suspect, max_crashes))?;
    report.rescued += taken.back;
    report.discarded += taken.dead;
    Ok(taken.more)
}

/// How many jobs one transaction took from a worker, and whether it has more.
#[derive(Default)]
struct Taken {
    back: u64,
    dead: u64,
    more: bool,
}

/// Takes jobs from a worker; with the last of them, what was asked of it is forgotten.
fn take_some(
    tx: &mut Tx<'_>,
    worker: WorkerId,
    told: EventType,
    decide: impl Fn(&OpenJob) -> HandBack,
) -> Outcome<Taken> {
    let (mut taken, mut room) = (Taken::default(), Room::WHOLE);
    for mut lease in Lease::open_of(tx, worker)? {
        let open = lease.open;
        let (back, dead) = lease.hand_back(tx, told, &mut room, &decide)?;
        taken.back += back;
        taken.dead += dead;
        if lease.open > 0 {
            taken.more = lease.open < open || room != Room::WHOLE;
            return Ok(taken);
        }
    }
    cancel_request::forget(tx, worker)?;
    Ok(taken)
}

/// Adds up the transactions of one call.
pub(crate) fn add(total: &mut RescueReport, one: RescueReport) {
    total.workers.extend(one.workers);
    total.rescued += one.rescued;
    total.discarded += one.discarded;
    total.next_end = one.next_end;
}

fn find(tx: &Tx<'_>, sql: &str, params: impl Params) -> Outcome<Option<(WorkerId, Option<JobId>)>> {
    let mut find = tx.conn.prepare_cached(sql)?;
    let row =
        find.query_one(params, |row| Ok((WorkerId(row.get(0)?), row.get::<_, Option<i64>>(1)?.map(JobId))));
    Ok(row.optional()?)
}

/// Leases, and the rates of keys, begin anew where the clock was set back. A step that is shorter than the time since the last heartbeat shows
/// nowhere: keys stand still for so long.
fn follow_clock(tx: &mut Tx<'_>) -> Outcome<()> {
    let living = tx.conn.prepare_cached(CLOCK_WENT_BACK)?.execute([tx.now])?;
    if living + tx.conn.prepare_cached(ENDS_TO_COME)?.execute([tx.now])? == 0 {
        return Ok(());
    }
    let mut freed = false;
    for queue in tx.keyed().with_rates() {
        freed |= key_rates::shorten(tx.conn, queue, tx.now)?;
    }
    if freed { tx.wake() } else { Ok(()) }
}

/// What becomes of a job whose worker died. A job that ran alone then is taken to have killed the worker; when none
/// ran alone, any of them may have.
fn after_crash(job: &OpenJob, suspect: Option<JobId>, max_crashes: u16) -> HandBack {
    match suspect {
        Some(suspect) if suspect == job.id => {
            let workers = job.crash_count.saturating_add(1);
            if workers >= max_crashes {
                HandBack::CrashLoop { workers }
            } else {
                HandBack::Available { crashes: 1 }
            }
        }
        Some(_) => HandBack::Available { crashes: 0 },
        None => HandBack::Available { crashes: u16::from(job.crash_count < INNOCENT_CRASHES) },
    }
}
