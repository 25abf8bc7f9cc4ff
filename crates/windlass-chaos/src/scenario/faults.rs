use super::{
    PATIENCE, Trial,
    ground::Ground,
    storm::{crash, strike},
};
use crate::{
    checker::Report,
    history::{Fault, Phase},
    proxy::{Chance, CommitCuts, CutPoint, writes},
    run::Run,
};
use anyhow::Result;
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// The share of commits that is cut.
const CUT: f64 = 0.02;

/// How often what else there is to do is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Kills, pauses, shutdowns, cut commits and crashes of the database, for as long as they last.
pub(super) struct Faults {
    pub(super) length: Duration,
    /// How often the database crashes.
    pub(super) crashes: u32,
    /// How many milliseconds lie between two of the others.
    pub(super) rest: Range<u64>,
}

impl Faults {
    /// Injects them, and `also` several times a second, and concludes the run.
    pub(super) fn inject(
        self,
        mut run: Run,
        ground: &Ground,
        trial: &Trial,
        mut also: impl FnMut(&mut Run) -> Result<()>,
    ) -> Result<Report> {
        run.wait(Duration::from_millis(700))?;
        run.phase(Phase::Faults);
        if let Some(proxy) = &ground.proxy {
            run.fault(Fault::CommitCut, true);
            let points = [CutPoint::BeforeForward, CutPoint::AfterForward, CutPoint::Racing];
            let cuts = CommitCuts::new(&points, Chance::Probability(CUT), trial.seed);
            proxy.cut_commits(Some(cuts.counting(writes)));
        }
        let (began, mut crashed) = (Instant::now(), 0);
        let length = trial.seconds.map_or(self.length, Duration::from_secs);
        while began.elapsed() < length {
            let rest = Instant::now() + Duration::from_millis(run.rng.u64(self.rest.clone()));
            while let left = rest.saturating_duration_since(Instant::now())
                && !left.is_zero()
            {
                run.wait(left.min(LOOK_EVERY))?;
                also(&mut run)?;
            }
            strike(&mut run, ground, trial)?;
            let share = f64::from(crashed + 1) / f64::from(self.crashes + 1);
            let due = began.elapsed() > length.mul_f64(share);
            if let Some(server) = ground.server.as_ref().filter(|_| due && crashed < self.crashes) {
                crash(&mut run, server)?;
                crashed += 1;
            }
        }
        if let Some(proxy) = &ground.proxy {
            proxy.cut_commits(None);
            run.fault(Fault::CommitCut, false);
        }
        // A store with a bug may never drain, and need not be waited for long.
        run.conclude(if trial.bug.is_some() { PATIENCE / 4 } else { PATIENCE })
    }
}
