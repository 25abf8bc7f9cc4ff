use crate::failure::{Failure, Outcome};
use std::{fs, io, path::PathBuf};
use windlass::EventCursor;

/// A file that keeps how far the events were printed.
pub(super) struct CursorFile(PathBuf);

impl CursorFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// What it has; `None` when it is not there yet.
    pub(super) fn read(&self) -> Outcome<Option<EventCursor>> {
        match fs::read_to_string(&self.0) {
            Ok(text) if text.trim().is_empty() => {
                let message = format!("{} has no cursor; remove it to begin anew", self.0.display());
                Err(Failure::usage("invalid_option", message))
            }
            Ok(text) => Ok(Some(EventCursor::from(text.trim()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unusable("read", &error)),
        }
    }

    /// Replaces what it has, at once: whoever is killed meanwhile leaves the old cursor or the new one.
    pub(super) fn write(&self, cursor: &EventCursor) -> Outcome {
        let mut name = self.0.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = self.0.with_file_name(name);
        let written = fs::write(&new, format!("{cursor}\n")).and_then(|()| fs::rename(&new, &self.0));
        written.map_err(|error| self.unusable("write", &error))
    }

    fn unusable(&self, what: &str, error: &io::Error) -> Failure {
        Failure::usage("io", format!("cannot {what} the cursor in {}: {error}", self.0.display()))
    }
}
