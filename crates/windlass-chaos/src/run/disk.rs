use crate::history::{Fault, Recorder, What};
use std::{
    fs::OpenOptions,
    io::Write as _,
    path::Path,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// How often the watch writes.
const WRITE_EVERY: Duration = Duration::from_millis(250);
/// From when on a write that must reach the disk is late: a heartbeat on SQLite waits for the commits of all processes before its own,
/// and five of these are the shortest lease of any scenario.
const LATE: Duration = Duration::from_millis(200);

/// Notes when the disk takes long, as that of a busy machine does: a lease lost to that is no defect. A thread of its own, with a file
/// in this folder, until nobody has the recorder any more.
pub(super) fn watch(folder: &Path, recorder: &Arc<Recorder>) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).create_new(true).open(folder.join("disk.watch"))?;
    let recorder = Arc::downgrade(recorder);
    std::thread::spawn(move || {
        let mut write = || file.write_all(b"written\n").and_then(|()| file.sync_data());
        loop {
            let before = Instant::now();
            // A full disk is a fault that the run knows of.
            let done = write();
            if Weak::strong_count(&recorder) == 0 {
                return;
            }
            if done.is_ok() && before.elapsed() > LATE {
                let noted = |begins| What::Fault { fault: Fault::SlowDisk, target: None, begins };
                recorder.upgrade().inspect(|recorder| recorder.note_all([noted(true), noted(false)]));
            }
            std::thread::sleep(WRITE_EVERY);
        }
    });
    Ok(())
}
