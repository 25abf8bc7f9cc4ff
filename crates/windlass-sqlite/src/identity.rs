//! Whose file is it? Answered from the first bytes, before SQLite may touch anything: opening a foreign
//! database could replay its journal or checkpoint its log.
//!
//! A file is read so only while this process has no connection to it: the locks that a process has on a file end when *any* handle of it is
//! closed ([how to corrupt a database](https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_)).
//! SQLite cannot be asked instead: without locks it finds a file malformed that another process is changing.

use crate::moved::beside;
use std::{
    collections::HashMap,
    ffi::OsStr,
    fs, io,
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};
use windlass_core::{Error, ErrorKind, Result};

/// "WIND": marks a database as Windlass's, in the file's header.
pub(crate) const APPLICATION_ID: i32 = 0x5749_4E44;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;
const APPLICATION_ID_AT: usize = 68;
/// The longest name that SQLite gives a file beside the database, and the longest path that it opens, in bytes (`MAX_PATHNAME` of its `os_unix.c`).
const LONGEST_SUFFIX: &str = "-journal";
const LONGEST_PATH: usize = 512;
/// As many links are followed as Linux follows.
const MOST_LINKS: usize = 40;

/// The files that this process has open, and how often.
static OPEN: LazyLock<Mutex<HashMap<Arc<Path>, usize>>> = LazyLock::new(Mutex::default);

/// A file that is Windlass's, while this process has a connection to it. Dropped after that is closed.
#[derive(Debug)]
pub(crate) struct Ours(Arc<Path>);

impl Ours {
    /// Checks it as [`check`] does, unless it is open here.
    pub(crate) fn check(path: &Path) -> Result<Self> {
        let real = Arc::from(real(path));
        let mut open = open();
        if !open.contains_key(&real) {
            check(path)?;
        }
        *open.entry(Arc::clone(&real)).or_default() += 1;
        Ok(Self(real))
    }
}

/// For another connection.
impl Clone for Ours {
    fn clone(&self) -> Self {
        *open().entry(Arc::clone(&self.0)).or_default() += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let mut open = open();
        if let Some(uses) = open.get_mut(&self.0) {
            *uses -= 1;
            if *uses == 0 {
                open.remove(&self.0);
            }
        }
    }
}

fn open() -> MutexGuard<'static, HashMap<Arc<Path>, usize>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file by the one name that all its paths have; it need not exist.
fn real(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match (path.canonicalize(), path.read_link()) {
            (Ok(real), _) => return real,
            // A link to a file that is not there yet.
            (Err(_), Ok(target)) => path = folder(&path).join(target),
            (Err(_), Err(_)) => break,
        }
    }
    let folder = folder(&path).canonicalize().unwrap_or_else(|_| folder(&path).to_owned());
    folder.join(path.file_name().unwrap_or(OsStr::new("")))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Checks that `path` can be Windlass's: absent, empty, or marked as such.
///
/// The mark reaches the file itself with the first transaction, which runs before the switch to WAL. So a
/// Windlass file never lacks it, whatever process is creating it at this moment.
fn check(path: &Path) -> Result<()> {
    let (shown, parent) = (path.display(), folder(path));
    match fs::metadata(parent) {
        Ok(meta) if meta.is_dir() => {}
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => return Err(denied(path, cause)),
        _ => {
            let instead = other_meant(path).unwrap_or_else(|| format!("create {} first", parent.display()));
            let message = format!("the folder of {shown} does not exist; {instead}");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
    }
    // To read a pipe would wait for whoever writes to it.
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        let message = format!("{shown} is a pipe, a socket or a device; name a file");
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    refuse_long_name(path)?;
    refuse_many_names(path)?;
    let header = match read_header(path) {
        Ok(header) => header,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return refuse_to_begin_anew(path),
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => return Err(denied(path, cause)),
        Err(cause) => {
            let message = format!("cannot read {shown}: {cause}; name a file");
            return Err(Error::new(ErrorKind::InvalidOption, message).with_source(cause));
        }
    };
    if header.is_empty() {
        return refuse_to_begin_anew(path);
    }
    if is_ours(&header) {
        return Ok(());
    }
    let what = if header.starts_with(MAGIC) {
        "is another application's SQLite database"
    } else {
        "is not a SQLite database"
    };
    Err(Error::new(
        ErrorKind::InvalidOption,
        format!("{shown} {what}; it was left untouched, name another file"),
    ))
}

/// Where a file is missing and its log is there SQLite removes that, with what was committed and is not in the file yet, wherever this was moved to.
fn refuse_to_begin_anew(path: &Path) -> Result<()> {
    let log = beside(path, "-wal");
    // Somebody else may just have made the file: it is there before its log.
    if fs::metadata(&log).map_or(0, |log| log.len()) == 0
        || read_header(path).is_ok_and(|header| !header.is_empty())
    {
        return Ok(());
    }
    let (shown, log) = (path.display(), log.display());
    let message = format!(
        "{shown} is missing or empty, and {log} has what was committed last and is not in that file yet; put the file back, or remove {log} too"
    );
    Err(Error::new(ErrorKind::InvalidOption, message))
}

/// SQLite would make the file, not its log, and say that it cannot open the file.
fn refuse_long_name(path: &Path) -> Result<()> {
    let longest = beside(&real(path), LONGEST_SUFFIX);
    let unfit = |cause: io::Error| cause.kind() == io::ErrorKind::InvalidFilename;
    let most = if fs::symlink_metadata(&longest).err().is_some_and(unfit) {
        "the names of SQLite's files beside it, which end in -journal, are too long for this file system"
            .to_owned()
    } else if longest.as_os_str().len() > LONGEST_PATH {
        format!("SQLite takes whole paths of {} bytes at most", LONGEST_PATH - LONGEST_SUFFIX.len())
    } else {
        return Ok(());
    };
    let message = format!("{} is too long a name: {most}; name a file with a shorter one", path.display());
    Err(Error::new(ErrorKind::InvalidOption, message))
}

/// Each name of a file has a log of its own: who opened it by one does not see what others commit by another, and writes over it.
#[cfg(unix)]
fn refuse_many_names(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let names = fs::metadata(path).map_or(1, |meta| if meta.is_file() { meta.nlink() } else { 1 });
    if names <= 1 {
        return Ok(());
    }
    let message = format!(
        "{} has {names} names (hard links), and programs that open it by different ones lose what the others stored; \
         remove the other names, or make this one a copy",
        path.display()
    );
    Err(Error::new(ErrorKind::InvalidOption, message))
}

#[cfg(not(unix))]
fn refuse_many_names(_: &Path) -> Result<()> {
    Ok(())
}

/// What is probably meant by a path whose folder does not exist.
fn other_meant(path: &Path) -> Option<String> {
    if path.starts_with("~") {
        return Some("only shells know what ~ is, so write the whole path".to_owned());
    }
    // Who comes from SQLAlchemy writes `sqlite:///data/jobs.db` for it.
    let here = path.strip_prefix("/").ok().filter(|here| folder(here).is_dir())?;
    Some(format!("write sqlite:{} for the one in this folder", here.display()))
}

fn is_ours(header: &[u8]) -> bool {
    header.len() == HEADER_BYTES
        && header.starts_with(MAGIC)
        && header[APPLICATION_ID_AT..APPLICATION_ID_AT + 4] == APPLICATION_ID.to_be_bytes()
}

fn read_header(path: &Path) -> io::Result<Vec<u8>> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    fs::File::open(path)?.take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    Ok(header)
}

pub(crate) fn denied(path: &Path, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let cause = cause.into();
    let message =
        format!("{} and its folder must be readable and writable by this user: {cause}", path.display());
    Error::new(ErrorKind::PermissionDenied, message).with_source(cause)
}
