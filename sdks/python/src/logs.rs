//! What the engine says of itself, for Python's `logging`: its threads put lines into a channel and never wait, a thread of Python takes them.

use pyo3::prelude::*;
use std::{
    fmt::{self, Write as _},
    mem,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
};
use tracing::{Event, Level, Subscriber, field::Field, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    layer::{Context, SubscriberExt},
    reload,
    util::SubscriberInitExt,
};
use windlass_bridge::fork::Undivided;

/// How many lines wait at most; what comes then is lost, and counted.
const MOST: usize = 1_024;
/// The crates that are listened to: their names begin so.
const OURS: &str = "windlass";
/// Tells of attempts that failed, which the package does by itself, with the traceback.
const FAILURES: &str = "windlass_runtime::conclusion";

/// A line: the level as Python has it, where it is from, what it says.
type Line = (u8, String, String);

/// How lines get to Python. Of one process: in a fork, those who held its locks are not there.
struct Channel {
    process: u32,
    sender: SyncSender<Line>,
    lines: Arc<Mutex<Receiver<Line>>>,
}

impl Channel {
    fn new() -> Self {
        let (sender, lines) = sync_channel(MOST);
        Self { process: std::process::id(), sender, lines: Arc::new(Mutex::new(lines)) }
    }
}

/// Set when listening begins; locked for the moment of looking at it.
static CHANNEL: Mutex<Option<Channel>> = Mutex::new(None);
static FILTER: OnceLock<Option<reload::Handle<Targets, Registry>>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);
/// What the filter lets through. A child need not change it: at the fork another thread may have read it, and have it locked for ever.
static LISTENS: Mutex<Option<u8>> = Mutex::new(None);

fn of_channel<T>(what: impl FnOnce(&Channel) -> T) -> Option<T> {
    CHANNEL.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(what)
}

struct Lines;

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        let line = (python(*metadata.level()), metadata.target().to_owned(), text.message + &text.fields);
        // A child would have the lock of the channel as it is now, and nobody who gives it back.
        let undivided = Undivided::now();
        if undivided.is_none() || of_channel(|channel| channel.sender.try_send(line).is_ok()) != Some(true) {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a text does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

fn python(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

fn engine(level: u8) -> LevelFilter {
    match level {
        0..10 => LevelFilter::TRACE,
        10..20 => LevelFilter::DEBUG,
        20..30 => LevelFilter::INFO,
        30..40 => LevelFilter::WARN,
        40..=50 => LevelFilter::ERROR,
        _ => LevelFilter::OFF,
    }
}

fn begin() -> Option<reload::Handle<Targets, Registry>> {
    let (filter, handle) = reload::Layer::new(Targets::new());
    // Refused where the program has a subscriber already, as the command line has.
    tracing_subscriber::registry().with(filter).with(Lines).try_init().ok()?;
    Some(handle)
}

/// Listens from this level of Python's on; whether there will be lines.
#[pyfunction]
pub(crate) fn listen(level: u8) -> bool {
    {
        let mut channel = CHANNEL.lock().unwrap_or_else(PoisonError::into_inner);
        if channel.as_ref().is_none_or(|channel| channel.process != std::process::id()) {
            // Dropping the parent's would touch what its threads hold.
            mem::forget(channel.replace(Channel::new()));
        }
    }
    let Some(filter) = FILTER.get_or_init(begin) else { return false };
    let mut listens = LISTENS.lock().unwrap_or_else(PoisonError::into_inner);
    if *listens != Some(level) {
        let targets = Targets::new().with_target(OURS, engine(level)).with_target(FAILURES, LevelFilter::OFF);
        *listens = filter.reload(targets).is_ok().then_some(level);
    }
    listens.is_some()
}

/// Waits for lines, without the interpreter, and how many were lost before them; one caller at a time.
#[pyfunction]
pub(crate) fn logged(py: Python<'_>) -> (Vec<Line>, u64) {
    let lines = py.detach(|| {
        let undivided = Undivided::begin();
        let lines = of_channel(|channel| Arc::clone(&channel.lines))?;
        drop(undivided);
        let lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let first = lines.recv().ok()?;
        Some(std::iter::once(first).chain(lines.try_iter().take(MOST)).collect())
    });
    (lines.unwrap_or_default(), LOST.swap(0, Ordering::Relaxed))
}

/// Puts a mark behind what is there, a line of level 0, if there is a place for it.
#[pyfunction]
pub(crate) fn mark_logs() -> bool {
    of_channel(|channel| channel.sender.try_send((0, String::new(), String::new())).is_ok()) == Some(true)
}
