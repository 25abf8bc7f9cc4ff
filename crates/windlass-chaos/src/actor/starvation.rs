use crate::history::{Fault, Recorder, What};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How often the watch looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// From when on a late look is worth a note: half of the shortest lease of any scenario.
const LATE: Duration = Duration::from_millis(500);

/// Notes when the machine gives this process no processor for long: a lease lost to that is no defect. A
/// thread of its own, so that it sees nothing of what the process does to itself.
pub(super) fn watch(recorder: &Arc<Recorder>, number: u64) {
    let (recorder, target) = (Arc::clone(recorder), i64::try_from(number).ok());
    std::thread::spawn(move || {
        loop {
            let before = Instant::now();
            std::thread::sleep(LOOK_EVERY);
            if before.elapsed() > LATE {
                let noted = |begins| What::Fault { fault: Fault::Starved, target, begins };
                recorder.note_all([noted(true), noted(false)]);
            }
        }
    });
}
