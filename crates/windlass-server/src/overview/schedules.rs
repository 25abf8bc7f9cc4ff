use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};
use windlass::{Client, Result, ScheduleFilter, ScheduleRecord};

/// The schedules that never fire. Each look reads one page of all schedules, the next one after that of the look before, so that each is read in
/// its turn however many there are.
#[derive(Default)]
pub(super) struct Wrong(Mutex<Known>);

#[derive(Default)]
struct Known {
    names: BTreeSet<String>,
    /// Where the last page ended; `None`: at the end.
    after: Option<String>,
}

impl Wrong {
    /// The first of their names.
    pub(super) async fn look(&self, client: &Client, most: usize) -> Result<Vec<String>> {
        let after = self.lock().after.clone();
        let filter = ScheduleFilter { after, limit: ScheduleFilter::MOST, ..ScheduleFilter::default() };
        let page = client.store().schedules(&filter).await?;
        let last = page.last().filter(|_| page.len() >= filter.limit as usize);
        let last = last.map(|schedule| schedule.name.clone());
        let is_wrong = |schedule: &ScheduleRecord| schedule.error.is_some();
        let wrong = page.into_iter().filter(is_wrong).map(|schedule| schedule.name).collect();
        let mut known = self.lock();
        known.read(filter.after.as_deref(), wrong, last);
        Ok(known.names.iter().take(most).cloned().collect())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// A page was read behind a name, up to its last one.
    fn read(&mut self, after: Option<&str>, wrong: Vec<String>, last: Option<String>) {
        let was_read = |name: &str| {
            after.is_none_or(|after| name > after) && last.as_deref().is_none_or(|last| name <= last)
        };
        self.names.retain(|name| !was_read(name));
        self.names.extend(wrong);
        self.after = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wrong_is_known_until_its_page_is_read_again() {
        let mut known = Known::default();
        let mut read = |wrong: &[&str], last: Option<&str>| {
            let after = known.after.clone();
            let wrong = wrong.iter().map(|name| (*name).to_owned()).collect();
            known.read(after.as_deref(), wrong, last.map(str::to_owned));
            known.names.iter().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(read(&["b"], Some("m")), "b");
        assert_eq!(read(&["n", "x"], None), "b n x");
        assert_eq!(read(&["a", "m"], Some("m")), "a m n x");
        assert_eq!(read(&[], None), "a m", "they were mended, or are gone");
    }
}
