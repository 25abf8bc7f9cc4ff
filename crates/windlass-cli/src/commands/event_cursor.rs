use crate::failure::{Failure, Outcome};
use std::{fs, io, path::PathBuf};
use windlass::{Error, ErrorKind, EventCursor};

/// A file that keeps how far the events were printed.
pub(super) struct CursorFile(PathBuf);

impl CursorFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// What it has; `None` when it is not there yet. It has to be one that can be written, before anything is printed.
    pub(super) fn read(&self) -> Outcome<Option<EventCursor>> {
        let new = self.beside();
        fs::write(&new, "")
            .and_then(|()| fs::remove_file(&new))
            .map_err(|error| self.unusable("write", &error))?;
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
        let new = self.beside();
        let written = fs::write(&new, format!("{cursor}\n")).and_then(|()| fs::rename(&new, &self.0));
        written.map_err(|error| self.unusable("write", &error))
    }

    /// Where the next one is written before it takes its place.
    fn beside(&self) -> PathBuf {
        let mut name = self.0.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        self.0.with_file_name(name)
    }

    /// The store does not take what it has.
    pub(super) fn refused(&self, error: Error) -> Failure {
        let is_of_cursor = error.is_invalid_input() || error.kind() == ErrorKind::EventsExpired;
        let failure = Failure::from(error);
        match is_of_cursor {
            true => failure.explain(|why| format!("the cursor in {}: {why}", self.0.display())),
            false => failure,
        }
    }

    fn unusable(&self, what: &str, error: &io::Error) -> Failure {
        Failure::usage("io", format!("cannot {what} the cursor in {}: {error}", self.0.display()))
    }
}
