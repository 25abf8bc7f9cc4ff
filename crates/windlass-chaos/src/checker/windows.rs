//! I7 for keys that a job has for a while, whatever becomes of it: no other is stored in that time, and nobody finds the key taken afterwards.

use super::{
    Invariant, Report,
    holds::{Jobs, Kept},
};
use std::collections::BTreeMap;

/// How much one clock is faster than the other.
const INEXACT_NS: u64 = 50_000_000;

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
    for (unique, mut all) in by_key {
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
    for kept in &jobs.kept {
        if let Some(why) = wrongly_kept(kept, jobs) {
            let text = format!("key {} was told that job {} has its key, {why}", kept.key, kept.holder);
            report.violate(Invariant::I7, Some(kept.holder), text);
        }
    }
}

/// Why the job that an answer names cannot have had the key, if it cannot.
fn wrongly_kept(kept: &Kept, jobs: &Jobs) -> Option<String> {
    let (unique, window, _) = jobs.keys.get(&kept.key)?.window?;
    let holder = jobs.by_id.get(&kept.holder)?;
    let Some((other, ..)) = jobs.keys.get(&holder.acked_key?)?.window else {
        return Some("which has none for a while".to_owned());
    };
    if other != unique {
        return Some(format!("which has key {other}"));
    }
    let end = holder.acked.saturating_add(window).saturating_add(INEXACT_NS);
    let late = kept.sent.checked_sub(end).filter(|late| *late > 0)?;
    Some(format!("whose window was over {} ms before the call", late / 1_000_000))
}
