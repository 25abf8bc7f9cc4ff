use crate::history::{Fault, Recorder, What};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How often the watch looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// From when on a late look is worth a note: half of the shortest lease of any scenario.
const LATE: Duration = Duration::from_millis(500);

/// Notes when the machine gives this process no processor for long: a lease lost to that is no defect. `target`: the number of the
/// process; none where it runs what everybody needs, as the store's server or the proxy before it. A thread of its own, so that it sees
/// nothing of what the process does to itself, until nobody has the recorder any more.
pub(crate) fn watch(recorder: &Arc<Recorder>, target: Option<i64>) {
    let recorder = Arc::downgrade(recorder);
    std::thread::spawn(move || {
        loop {
            let before = Instant::now();
            std::thread::sleep(LOOK_EVERY);
            let late = before.elapsed() > LATE;
            let Some(recorder) = recorder.upgrade() else { return };
            if late {
                let noted = |begins| What::Fault { fault: Fault::Starved, target, begins };
                recorder.note_all([noted(true), noted(false)]);
            }
        }
    });
}
