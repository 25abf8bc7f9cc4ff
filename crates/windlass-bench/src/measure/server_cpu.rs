use std::{fs, ops::RangeInclusive, path::Path};

/// The numbers of these fields of a `/proc/PID/stat`, counted from 1 as in proc(5).
fn stat_numbers(stat: &str, fields: RangeInclusive<usize>) -> Option<Vec<u64>> {
    // The name in parentheses may hold spaces; the field after it is the third.
    let rest = stat.rsplit_once(") ")?.1;
    let skip = fields.start().checked_sub(3)?;
    let wanted = fields.end() + 1 - fields.start();
    let numbers: Option<Vec<_>> =
        rest.split_whitespace().skip(skip).take(wanted).map(|field| field.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == wanted)
}

/// The processes of a PostgreSQL server on this machine.
#[derive(Clone, Debug)]
pub(super) struct ServerProcesses {
    postmaster: u64,
}

impl ServerProcesses {
    /// Finds them by the process that serves our session, whose title names our port or says that we came through
    /// a socket. `None` for a server on another machine or in another container, or when the processes of its user
    /// are hidden.
    pub(super) fn find(backend: u32, port: Option<i32>) -> Option<Self> {
        let folder = Path::new("/proc").join(backend.to_string());
        let title = String::from_utf8_lossy(&fs::read(folder.join("cmdline")).ok()?).into_owned();
        let place = port.map_or("[local]".to_owned(), |port| format!("({port})"));
        if !title.starts_with("postgres") || !title.contains(&place) {
            return None;
        }
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        let postmaster = *stat_numbers(&stat, 4..=4)?.first()?;
        (postmaster > 1).then_some(Self { postmaster })
    }

    /// Processor time of all of them until now. Those that ended are included, because the postmaster waited for
    /// them.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        // The children are read before the postmaster: one that ends in between may be counted twice this time,
        // but is never lost.
        let mut ticks = 0;
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            if stat_numbers(&stat, 4..=4).is_some_and(|parent| parent == [self.postmaster]) {
                ticks += stat_numbers(&stat, 14..=15)?.iter().sum::<u64>();
            }
        }
        let own = fs::read_to_string(format!("/proc/{}/stat", self.postmaster)).ok()?;
        ticks += stat_numbers(&own, 14..=17)?.iter().sum::<u64>();
        Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_as_the_manual_does() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        assert_eq!(stat_numbers(stat, 4..=4), Some(vec![1]));
        assert_eq!(stat_numbers(stat, 14..=17), Some(vec![11, 12, 13, 14]));
        assert_eq!(stat_numbers(stat, 19..=20), None);
        assert_eq!(stat_numbers("", 4..=4), None);
    }
}
