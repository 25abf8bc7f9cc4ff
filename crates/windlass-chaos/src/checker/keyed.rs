//! I8 and I9 for keys: of one no more jobs are held at once, or start in a time, than its limit says; and of a serial one no other job is handed
//! out while one that was is not over, and none before an earlier one that was there.
//!
//! Nobody knows when a commit happened, only that it did between two notes. A job counts as held from the answer of its claim until its
//! handler ended or was about to commit its end, while its lease stood; and as not over from the answer of its first claim that the database
//! may not have forgotten until the call of its last was sent.

use super::{
    Invariant, Report, Rules,
    faults::Faults,
    holds::{Hold, Job, Jobs},
    rates::{Start, exceeded},
};
use crate::keys::{KEY_LIMIT, has_rate, is_serial, key_of};
use std::collections::BTreeMap;
use windlass_core::RateLimit;

pub(super) fn check(all: &Jobs, faults: &Faults, rules: &Rules, report: &mut Report) {
    let mut by_key: BTreeMap<u32, Vec<&Job>> = BTreeMap::new();
    for job in all.by_id.values() {
        if let Some(number) = number_of(job) {
            by_key.entry(key_of(number, rules.keys)).or_default().push(job);
        }
    }
    for (key, jobs) in by_key {
        let serial = rules.all_serial || is_serial(key);
        at_once(key, serial, &jobs, faults, report);
        if let Some(rate) = rules.key_rate.filter(|_| has_rate(key)) {
            in_time(key, &jobs, faults, rate, report);
        }
        if serial {
            in_order(key, &jobs, faults, report);
        }
        if rules.all_serial {
            in_turn(key, &jobs, all, faults, report);
        }
    }
}

/// The number that its producer gave the job.
fn number_of(job: &Job) -> Option<i64> {
    let stored = job.records.first().map(|record| record.key);
    job.acked_key.or(job.seen_keys.first().copied()).or(stored)
}

fn at_once(key: u32, serial: bool, jobs: &[&Job], faults: &Faults, report: &mut Report) {
    let (limit, invariant) = if serial { (1, Invariant::I8) } else { (KEY_LIMIT, Invariant::I9) };
    let mut changes: Vec<(u64, bool, i64)> = Vec::new();
    for job in jobs {
        for (from, until) in job.holds.iter().filter_map(|hold| held(hold, faults)) {
            changes.extend([(from, true, job.id), (until, false, job.id)]);
        }
    }
    // What ends at the same time as another begins ends first.
    changes.sort_unstable();
    let mut count = 0;
    for (_, begins, id) in changes {
        count = if begins { count + 1 } else { count - 1 };
        if count > limit {
            let text = format!("{count} jobs of key {key} were held at once, {limit} may be");
            return report.violate(invariant, Some(id), text);
        }
    }
}

/// A start lies between the time at which the store handed the job out and that at which it was held no more; for all of this, and the
/// period after it, the job counts. So no start is late, and the windows are whole, but for what one clock is slower than the other.
fn in_time(key: u32, jobs: &[&Job], faults: &Faults, rate: RateLimit, report: &mut Report) {
    let mut starts = Vec::new();
    for job in jobs {
        let counts = job.holds.iter().filter(|hold| held(hold, faults).is_some());
        let start = |at| Start { from: at, at, job: job.id };
        starts.extend(counts.filter_map(|hold| hold.started).map(start));
    }
    let window = rate.period * 99 / 100;
    if let Some((id, count)) = exceeded(&mut starts, rate.count, window) {
        let text = format!(
            "{count} jobs of key {key} started within {window:?}, {} may in {:?}",
            rate.count, rate.period
        );
        report.violate(Invariant::I9, Some(id), text);
    }
}

/// From when until when a worker held the job for certain.
fn held(hold: &Hold, faults: &Faults) -> Option<(u64, u64)> {
    let (finished, _) = hold.finished?;
    let until = hold.effect_sent.map_or(finished, |sent| sent.min(finished));
    let stood = !faults.may_be_dead(hold.worker, until)
        && !faults.had_deregistered(hold.worker, until)
        && !faults.forgot_claims(hold.sent, until);
    (stood && hold.claimed < until).then_some((hold.claimed, until))
}

fn in_order(key: u32, jobs: &[&Job], faults: &Faults, report: &mut Report) {
    let mut claims: Vec<(u64, u64, i64)> = Vec::new();
    for job in jobs {
        claims.extend(job.holds.iter().map(|hold| (hold.sent, hold.claimed, job.id)));
    }
    claims.sort_unstable();
    for job in jobs.iter().filter(|job| job.retries_asked == 0) {
        let (Some(first), Some(last)) = (first_kept(job, faults), job.holds.last()) else { continue };
        let after = claims.partition_point(|(sent, ..)| *sent <= first.claimed);
        let meanwhile = claims[after..].iter().take_while(|(sent, ..)| *sent < last.sent);
        let mut others = meanwhile.filter(|(_, claimed, id)| *claimed < last.sent && *id != job.id);
        if let Some((.., other)) = others.next() {
            let text =
                format!("job {other} of serial key {key} was handed out while job {} was not over", job.id);
            report.violate(Invariant::I8, Some(*other), text);
        }
    }
}

/// A job is not handed out while one of a lower id is there and not over: in runs whose jobs are of one priority, and due at once. What ended a job is
/// flushed before the next is handed out, so no crash explains another order. Of a job that a worker had which died or stopped before it could note so, nobody knows when it was
/// first handed out: perhaps before the earlier one was there. (Serial, seed 2026: a worker was told to stop while it claimed nine jobs, and gave them back; an
/// enqueue of lower ids was committed meanwhile.)
fn in_turn(key: u32, jobs: &[&Job], all: &Jobs, faults: &Faults, report: &mut Report) {
    for (nth, later) in jobs.iter().enumerate() {
        let first = later.holds.iter().min_by_key(|hold| hold.sent);
        let Some(first) = first.filter(|hold| hold.crashes == 0) else { continue };
        let was_there =
            |job: &&&Job| job.retries_asked == 0 && job.acked_key.is_some() && job.acked < first.sent;
        let comes_after = |job: &&&Job| job.holds.iter().any(|hold| hold.sent > first.claimed);
        let sent = later.acked_key.and_then(|key| all.keys.get(&key)?.sent).unwrap_or_default();
        let may_be_given_back = || faults.some_deregistered(sent, first.sent);
        if let Some(earlier) = jobs[..nth].iter().filter(was_there).find(comes_after)
            && !may_be_given_back()
        {
            let text = format!(
                "job {} of serial key {key} was handed out before job {}, which was there",
                later.id, earlier.id
            );
            return report.violate(Invariant::I8, Some(later.id), text);
        }
    }
}

/// The first of its claims that the database knew until the next one. What was settled is flushed, and its claim before it.
fn first_kept<'a>(job: &'a Job, faults: &Faults) -> Option<&'a Hold> {
    let next = |at: usize| job.holds.get(at + 1).map_or(u64::MAX, |hold| hold.sent);
    let is_kept =
        |(at, hold): &(usize, &Hold)| hold.settled().is_some() || !faults.forgot_claims(hold.sent, next(*at));
    job.holds.iter().enumerate().find(is_kept).map(|(_, hold)| hold)
}
