//! Keeps what is logged, to look at.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what this thread logs from now on, until the guard goes.
    pub(crate) fn keep(&self, level: tracing::Level) -> DefaultGuard {
        let subscriber = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
        tracing::subscriber::set_default(subscriber.with_writer(self.clone()).finish())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Lines<'a>;

    fn make_writer(&'a self) -> Lines<'a> {
        Lines(self.0.lock().unwrap())
    }
}

pub(crate) struct Lines<'a>(MutexGuard<'a, Vec<u8>>);

impl io::Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
