//! What becomes of a settlement that the store refuses because of its contents: it is halved until the one entry that
//! the store does not accept is found, so that only that job is affected and not its neighbours.

use windlass_core::{Disposition, Error, ErrorKind, SettleRequest};

/// The longest text of the store's error that the refused job is settled with.
const MOST_TEXT: usize = 500;

/// How often a batch is tried again that the store refuses because of its contents, not because of an outage.
pub(crate) const MOST_REFUSALS: u32 = 5;

/// Whether repeating the same call is unlikely to help: a statement ran, and failed because of what it was given. Stores say nothing of the sort where nothing was sent.
pub(crate) fn is_defect(error: &Error) -> bool {
    error.kind() == ErrorKind::Internal || error.is_invalid_input()
}

/// What to settle instead, in this order: two halves, or the one job as discarded. `None`: nothing is left to try.
///
/// Entries of single jobs come before those of whole claims, because `Rest` means what no other settlement names.
pub(crate) fn instead(mut request: SettleRequest, error: &Error) -> Option<Vec<SettleRequest>> {
    let worker = request.worker;
    match (request.completions.len(), request.exceptions.len()) {
        (0, 1) => {
            let exception = &mut request.exceptions[0];
            let discard = Disposition::Discard { error: safe_text(error), failed: true };
            let is_new = !matches!(&exception.disposition, Disposition::Discard { error, .. } if error.starts_with(REFUSED_JOB));
            exception.disposition = discard;
            is_new.then(|| vec![request])
        }
        (0 | 1, 0) => None,
        (0, count) => {
            let exceptions = request.exceptions.split_off(count / 2);
            Some(vec![request, SettleRequest { worker, completions: vec![], exceptions }])
        }
        (count, 0) => {
            let completions = request.completions.split_off(count / 2);
            Some(vec![request, SettleRequest { worker, completions, exceptions: vec![] }])
        }
        _ => {
            let exceptions = std::mem::take(&mut request.exceptions);
            Some(vec![SettleRequest { worker, completions: vec![], exceptions }, request])
        }
    }
}

const REFUSED_JOB: &str = "the store refused what became of this job: ";

/// Nothing that any store can object to.
fn safe_text(error: &Error) -> String {
    let text = error.to_string();
    let plain = text.chars().map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '?' });
    REFUSED_JOB.chars().chain(plain.take(MOST_TEXT)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::{ClaimRef, Completion, Exception, JobId, JobSet, WorkerId};

    fn request(claims: i64, jobs: i64) -> SettleRequest {
        let claim = |seq: i64| ClaimRef(1, seq as u64);
        let exception =
            |n| Exception { claim: claim(n), job: JobId(n), position: 0, disposition: Disposition::Return };
        SettleRequest {
            worker: WorkerId(1),
            completions: (0..claims)
                .map(|n| Completion { claim: claim(n), jobs: JobSet::Rest, count: 1 })
                .collect(),
            exceptions: (0..jobs).map(exception).collect(),
        }
    }

    #[test]
    fn halves_lose_nothing_and_named_jobs_come_first() {
        let error = Error::new(ErrorKind::Internal, "no €\0");
        let (mut pieces, mut single, mut rounds) = (vec![request(5, 9)], Vec::new(), 0);
        while let Some(piece) = pieces.pop() {
            rounds += 1;
            match instead(piece.clone(), &error) {
                Some(parts) if parts.len() == 2 => pieces.extend(parts.into_iter().rev()),
                _ => single.push(piece),
            }
        }
        let named = |piece: &SettleRequest| piece.exceptions.len();
        assert_eq!(single.iter().map(named).collect::<Vec<_>>(), [[1; 9].as_slice(), &[0; 5]].concat());
        assert!(rounds < 30, "{rounds} rounds");
    }

    #[test]
    fn a_single_job_is_discarded_with_a_plain_text_once() {
        let error = Error::new(ErrorKind::InvalidArgs, format!("no €\0{}", "x".repeat(9_000)));
        let safe = instead(request(0, 1), &error).unwrap().remove(0);
        let Disposition::Discard { error: text, failed: true } = &safe.exceptions[0].disposition else {
            panic!("{safe:?}")
        };
        assert!(text.is_ascii() && text.contains("no ??") && text.len() < 1_000, "{text}");
        assert!(instead(safe, &error).is_none());
        assert!(instead(request(1, 0), &error).is_none());
    }
}
