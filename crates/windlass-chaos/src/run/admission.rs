use super::{INJECTOR, Run};
use crate::{
    actor::{Act, Gate, Task},
    history::What,
    keys,
};
use anyhow::Result;
use std::time::{Duration, Instant};
use windlass::{Args, Client, NewJob};

/// How many jobs more than the limit there are, so that it is the limit which keeps them waiting, and not that a worker has claimed more than it starts:
/// it fetches jobs ahead for slots that are free again in a moment, as they were until these jobs came.
const MORE: u32 = 40;
/// As many keys are looked at as have so many jobs at once together: no more than one worker has slots, so that it starts all of those that it claims.
const MOST_AT_ONCE: usize = 8;
/// How often it is looked how many run.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the gate stays shut when as many run as may: the checker sees whether more come.
const LINGER: Duration = Duration::from_millis(300);

impl Run {
    /// Now that nothing runs and every worker is there: a limit of n admits n at once, whatever became of those who had its slots. The jobs wait for each
    /// other, so that all of them run at the same time; that no more do, the checker sees.
    pub(super) fn fill_limits(&mut self, patience: Duration) -> Result<()> {
        let (numbers, expected) = self.too_many();
        let gate = Gate::of(&self.setup.folder);
        gate.shut()?;
        self.enqueue_at_gate(&numbers)?;
        let end = Instant::now() + patience;
        while gate.waiting()? < expected && Instant::now() < end {
            self.wait(LOOK_EVERY)?;
        }
        self.wait(LINGER)?;
        self.note_admitted(expected, gate.waiting()?);
        gate.open()?;
        Ok(())
    }

    pub(super) fn note_admitted(&self, limit: usize, got: usize) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.recorder.note(What::Admitted { limit: number(limit), got: number(got) });
    }

    /// The numbers of more jobs than may run at once, and how many may.
    fn too_many(&self) -> (Vec<i64>, usize) {
        let rules = &self.rules;
        if rules.keys == 0 {
            return ((0..i64::from(rules.limit + MORE)).collect(), rules.limit as usize);
        }
        let limit_of = |key: &u32| match rules.all_serial || keys::is_serial(*key) {
            true => 1,
            false => keys::KEY_LIMIT,
        };
        let jobs_of = |key: u32| {
            (0..=limit_of(&key)).map(move |nth| nth as i64 * i64::from(rules.keys) + i64::from(key))
        };
        let sums = (0..rules.keys).scan(0, |sum, key| {
            *sum += limit_of(&key);
            Some((key, *sum))
        });
        let chosen: Vec<_> = sums.take_while(|(_, sum)| *sum <= MOST_AT_ONCE).collect();
        let expected = chosen.last().map_or(0, |(_, sum)| *sum);
        (chosen.into_iter().flat_map(|(key, _)| jobs_of(key)).collect(), expected)
    }

    fn enqueue_at_gate(&self, numbers: &[i64]) -> Result<()> {
        let keys = self.rules.keys;
        let job = |number: &i64| {
            let args = Args::of(&Task { key: *number, act: Act::Gate })?;
            let job = NewJob::new("work", args);
            anyhow::Ok(if keys > 0 { job.with_key(keys::name_of(keys::key_of(*number, keys))) } else { job })
        };
        let numbers: Vec<i64> =
            numbers.iter().map(|number| (INJECTOR.cast_signed() << 40) | number).collect();
        self.recorder.note_all(numbers.iter().map(|key| What::EnqueueSent { key: *key }));
        let jobs = numbers.iter().map(job).collect::<Result<Vec<_>>>()?;
        let ids = self.block_on(async {
            let client = Client::connect(&self.setup.store).await?;
            let ids = client.enqueue_many(jobs).await?;
            client.close().await;
            anyhow::Ok(ids)
        })?;
        let acked = numbers.iter().zip(&ids).map(|(key, id)| What::EnqueueAcked { key: *key, id: id.0 });
        self.recorder.note_all(acked);
        Ok(())
    }
}
