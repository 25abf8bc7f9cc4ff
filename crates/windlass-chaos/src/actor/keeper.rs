//! Somebody who looks after schedules: pauses and resumes them, changes them, runs them by hand.

use super::{Order, Timetable, connect, dismissed};
use crate::history::{Recorder, What};
use anyhow::Result;
use fastrand::Rng;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use windlass::Client;

/// How long it rests at most between two things, in milliseconds.
const REST: u64 = 100;
/// How long a pause takes at most, in milliseconds.
const LONGEST_PAUSE: u64 = 2_500;
/// Before a call that failed is repeated.
const AGAIN: Duration = Duration::from_millis(20);

pub(super) async fn run(order: &Order, timetable: Timetable, recorder: Arc<Recorder>) -> Result<()> {
    let client = connect(&order.store).await?;
    let mut keeper =
        Keeper { client, timetable, recorder, rng: Rng::with_seed(order.seed), paused: Vec::new() };
    let mut leaving = std::pin::pin!(dismissed());
    loop {
        keeper.act().await?;
        let rest = Duration::from_millis(keeper.rng.u64(..REST));
        tokio::select! {
            () = &mut leaving => break,
            () = tokio::time::sleep(rest) => {}
        }
    }
    for (number, _) in std::mem::take(&mut keeper.paused) {
        keeper.set_paused(number, false).await?;
    }
    Ok(())
}

struct Keeper {
    client: Client,
    timetable: Timetable,
    recorder: Arc<Recorder>,
    rng: Rng,
    /// What it paused, and until when.
    paused: Vec<(u32, Instant)>,
}

impl Keeper {
    async fn act(&mut self) -> Result<()> {
        let now = Instant::now();
        while let Some(at) = self.paused.iter().position(|(_, until)| *until <= now) {
            let (number, _) = self.paused.swap_remove(at);
            self.set_paused(number, false).await?;
        }
        let number = self.rng.u32(self.timetable.numbers());
        let is_exact = number < self.timetable.exact;
        match self.rng.u32(0..3) {
            // Not all: most tick from the first to the last.
            0 if number.is_multiple_of(3) && self.paused.iter().all(|(paused, _)| *paused != number) => {
                if !self.set_paused(number, true).await? {
                    return Ok(());
                }
                let length = Duration::from_millis(self.rng.u64(..LONGEST_PAUSE));
                self.paused.push((number, Instant::now() + length));
            }
            // Its job would be the one whose end the next tick waits for, while that of the tick before still runs.
            1 if is_exact => self.run_by_hand(number).await,
            2 => {
                let schedule = match self.rng.bool() {
                    true => self.timetable.changed(number),
                    false => self.timetable.schedule(number),
                };
                if let Err(error) = self.client.schedules().put([schedule]).await {
                    tracing::debug!(%error, "a declaration failed");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Repeats the call until its answer is known. Whether there is such a schedule: some are declared by the first worker.
    async fn set_paused(&self, schedule: u32, paused: bool) -> Result<bool> {
        let note = |paused, done| {
            let wall_us = jiff::Timestamp::now().as_microsecond();
            self.recorder.note(What::PauseAsked { schedule, paused, done, wall_us });
        };
        note(paused, false);
        let names = [Timetable::name(schedule)];
        let found = loop {
            match self.client.store().pause_schedules(&names, paused).await {
                Ok(found) => break found == [true],
                Err(error) if error.is_connection_loss() || error.is_retryable() => {
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => return Err(error.into()),
            }
        };
        if paused && !found {
            note(false, false); // the pause that was asked is over
        }
        note(paused && found, true);
        Ok(found)
    }

    async fn run_by_hand(&self, schedule: u32) {
        self.recorder.note(What::RunAsked { schedule });
        match self.client.schedules().run(&Timetable::name(schedule)).await {
            Ok(id) => self.recorder.note(What::Ran { schedule, id: id.0 }),
            Err(error) => tracing::debug!(%error, "a run by hand failed"),
        }
    }
}
