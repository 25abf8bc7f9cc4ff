use super::Run;
use crate::{actor::Timetable, history::What};
use anyhow::{Context as _, Result};
use std::time::{Duration, Instant};
use windlass::{Client, ScheduleFilter, ScheduleRecord};

/// How often it is looked how far schedules got.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Run {
    /// Declares those schedules that are to be there before the first worker, and tells the checker of all.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn schedule(&mut self, timetable: Timetable) -> Result<()> {
        self.rules.schedules = timetable.numbers().map(|number| timetable.rule(number)).collect();
        let early = timetable.numbers().filter(|number| Timetable::is_early(*number));
        let schedules: Vec<_> = early.map(|number| timetable.schedule(number)).collect();
        let store = self.setup.store.clone();
        let records = self.block_on(async {
            let client = Client::connect(&store).await?;
            client.schedules().put(schedules).await?;
            let records = all(&client).await;
            client.close().await;
            records
        })?;
        for (number, record) in numbered(&records)? {
            let from_us = record.decided.as_microsecond();
            self.recorder.note(What::ScheduleMade { schedule: number, from_us });
        }
        Ok(())
    }

    /// Notes how far schedules are. A database that is away is looked at the next time.
    pub fn look_at_schedules(&self) {
        if let Ok(records) = self.all_schedules() {
            self.note_ticked(&records);
        }
    }

    fn all_schedules(&self) -> Result<Vec<ScheduleRecord>> {
        let store = self.setup.store.clone();
        self.block_on(async {
            let client = Client::connect(&store).await?;
            let records = all(&client).await;
            client.close().await;
            records
        })
    }

    fn note_ticked(&self, records: &[ScheduleRecord]) {
        let wall_us = jiff::Timestamp::now().as_microsecond();
        self.recorder.note(What::Looked { wall_us });
        let Ok(records) = numbered(records) else { return };
        self.recorder.note_all(records.into_iter().map(|(schedule, record)| What::Ticked {
            schedule,
            decided_us: record.decided.as_microsecond(),
            last_us: record.last_tick.map_or(0, jiff::Timestamp::as_microsecond),
        }));
    }

    /// Waits until schedules have caught up with their ticks, and stops them, so that the store can drain.
    pub(super) fn end_schedules(&mut self, patience: Duration) -> Result<()> {
        let (healed, end) = (jiff::Timestamp::now(), Instant::now() + patience);
        let store = self.setup.store.clone();
        let client = self.block_on(Client::connect(&store))?;
        loop {
            let records = match self.block_on(all(&client)) {
                Err(error) if Instant::now() >= end => return Err(error),
                records => records.unwrap_or_default(),
            };
            self.note_ticked(&records);
            let behind = records.iter().filter(|record| record.decided < healed).count();
            if !records.is_empty() && behind == 0 {
                break;
            }
            if Instant::now() >= end {
                self.fail(format!(
                    "{behind} of {} schedules stand still after the faults were over",
                    records.len()
                ));
                break;
            }
            self.wait(LOOK_EVERY)?;
        }
        let names: Vec<String> =
            self.rules.schedules.iter().map(|rule| Timetable::name(rule.schedule)).collect();
        self.block_on(async {
            client.store().pause_schedules(&names, true).await?;
            client.close().await;
            Ok(())
        })
    }

    /// Notes up to where each schedule was decided. No worker is there any more.
    pub(super) fn note_decided(&self) -> Result<()> {
        let records = self.all_schedules()?;
        let decided = numbered(&records)?
            .into_iter()
            .map(|(schedule, record)| What::Decided { schedule, until_us: record.decided.as_microsecond() });
        self.recorder.note_all(decided);
        Ok(())
    }
}

async fn all(client: &Client) -> Result<Vec<ScheduleRecord>> {
    let mut records: Vec<ScheduleRecord> = Vec::new();
    loop {
        let after = records.last().map(|record| record.name.clone());
        let filter = ScheduleFilter { after, limit: ScheduleFilter::MOST, ..ScheduleFilter::default() };
        let page = client.store().schedules(&filter).await?;
        if page.is_empty() {
            return Ok(records);
        }
        records.extend(page);
    }
}

/// Schedules by their numbers in the run.
fn numbered(records: &[ScheduleRecord]) -> Result<Vec<(u32, &ScheduleRecord)>> {
    let number = |record: &ScheduleRecord| {
        let digits = record.name.rsplit('-').next().and_then(|digits| digits.parse().ok());
        digits.with_context(|| format!("schedule {:?} is none of the run", record.name))
    };
    records.iter().map(|record| Ok((number(record)?, record))).collect()
}
