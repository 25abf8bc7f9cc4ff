//! I7 for keys that a job has for a while, whatever becomes of it: no other is stored in that time, which begins anew where a call
//! extends it, and nobody finds the key taken afterwards.

use super::{
    Invariant, Report,
    holds::{Jobs, Kept},
};
use std::collections::BTreeMap;

/// How much one clock is faster than the other.
const INEXACT_NS: u64 = 50_000_000;
/// How long after it was sent a call of which nobody knows the answer may still have extended a window.
const UNANSWERED_NS: u64 = 5_000_000_000;

/// An enqueue that stored its job, some time between these two.
struct Stored {
    acked: u64,
    sent: u64,
    window: u64,
    job: i64,
}

pub(super) fn check(jobs: &Jobs, report: &mut Report) {
    let mut by_key: BTreeMap<i64, Vec<Stored>> = BTreeMap::new();
    for known in jobs.keys.values() {
        let (Some((unique, window, sent)), Some(job)) = (known.window, known.acked) else { continue };
        let acked = jobs.by_id.get(&job).map_or(sent, |job| job.acked);
        by_key.entry(unique).or_default().push(Stored { acked, sent, window, job });
    }
    for (unique, all) in &mut by_key {
        all.sort_unstable_by_key(|stored| (stored.acked, stored.job));
        for pair in all.windows(2) {
            let [first, next] = pair else { continue };
            let apart = next.acked.saturating_sub(first.sent).max(first.acked.saturating_sub(next.sent));
            if apart.saturating_add(INEXACT_NS) < first.window {
                let text = format!(
                    "key {unique} was given to job {} and {} ms later at most to job {}, its window is {} ms",
                    first.job,
                    apart / 1_000_000,
                    next.job,
                    first.window / 1_000_000
                );
                report.violate(Invariant::I7, Some(next.job), text);
            }
        }
    }
    for extended in &jobs.extended {
        check_extended(extended, jobs, &by_key, report);
    }
    let unknown = jobs.keys.values().filter(|key| key.acked.is_none() && !key.kept && !key.failed);
    let unknown: Vec<(i64, u64)> =
        unknown.filter_map(|key| key.window).map(|(unique, _, sent)| (unique, sent)).collect();
    for kept in jobs.kept.iter().chain(&jobs.extended) {
        if let Some(why) = wrongly_kept(kept, jobs, &unknown) {
            let text = format!("key {} was told that job {} has its key, {why}", kept.key, kept.holder);
            report.violate(Invariant::I7, Some(kept.holder), text);
        }
    }
}

/// No other job is stored within a window from when the holder's began anew; an earlier one was a window before the holder at least.
fn check_extended(extended: &Kept, jobs: &Jobs, by_key: &BTreeMap<i64, Vec<Stored>>, report: &mut Report) {
    let Some((unique, window, _)) = jobs.keys.get(&extended.key).and_then(|key| key.window) else { return };
    let others = by_key.get(&unique).into_iter().flatten().filter(|stored| stored.job != extended.holder);
    for other in others {
        let after = other.acked.saturating_sub(extended.sent);
        let apart = after.max(extended.noted.saturating_sub(other.sent));
        if apart.saturating_add(INEXACT_NS) < window {
            let text = format!(
                "key {unique} of job {} was extended, and {} ms later at most given to job {}, its window is {} ms",
                extended.holder,
                apart / 1_000_000,
                other.job,
                window / 1_000_000
            );
            report.violate(Invariant::I7, Some(other.job), text);
        }
    }
}

/// When the last other call may have made the holder's window begin anew, of those that were sent by then.
fn last_extended(kept: &Kept, unique: i64, jobs: &Jobs, unknown: &[(i64, u64)]) -> Option<u64> {
    let is_before = |other: &&Kept| {
        (other.holder, true) == (kept.holder, other.key != kept.key) && other.sent <= kept.noted
    };
    let told = jobs.extended.iter().filter(is_before).map(|other| other.noted).max();
    let lost = unknown.iter().filter(|(other, sent)| *other == unique && *sent <= kept.noted);
    told.max(lost.map(|(_, sent)| sent + UNANSWERED_NS).max())
}

/// Why the job that an answer names cannot have had the key, if it cannot.
fn wrongly_kept(kept: &Kept, jobs: &Jobs, unknown: &[(i64, u64)]) -> Option<String> {
    let (unique, window, _) = jobs.keys.get(&kept.key)?.window?;
    let holder = jobs.by_id.get(&kept.holder)?;
    let Some((other, ..)) = jobs.keys.get(&holder.acked_key?)?.window else {
        return Some("which has none for a while".to_owned());
    };
    if other != unique {
        return Some(format!("which has key {other}"));
    }
    let end = holder.acked.max(last_extended(kept, unique, jobs, unknown).unwrap_or(0));
    let end = end.saturating_add(window).saturating_add(INEXACT_NS);
    let late = kept.sent.checked_sub(end).filter(|late| *late > 0)?;
    Some(format!("whose window was over {} ms before the call", late / 1_000_000))
}
