use crate::Clock;
use std::{path::PathBuf, time::Duration};
use windlass_core::{Error, ErrorKind, Limits, Result, redact_url, sqlite_file};

/// How a [`SqliteStore`](crate::SqliteStore) behaves.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Bounds on what may be enqueued.
    pub limits: Limits,
    /// What a commit waits for. A `?synchronous=` in the URL takes precedence.
    pub synchronous: Synchronous,
    /// How long a call waits for another process to release the write lock before it fails as unavailable.
    /// Default 5 s.
    pub busy_timeout: Duration,
    /// The largest size that the database file may grow to, in bytes; beyond it writes fail as storage
    /// full. Default none: the disk is the limit.
    pub max_bytes: Option<u64>,
    /// Whether a worker of another version of its program marks a deploy, where this store's worker leads. Default true. A `?deploy_marks=` in the URL
    /// takes precedence.
    pub marks_deploys: bool,
    /// The source of time. Default: the machine's wall clock.
    pub clock: Clock,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            max_bytes: None,
            marks_deploys: true,
            clock: Clock::default(),
        }
    }
}

impl SqliteOptions {
    /// Says which file the URL names without opening it: for the fuzz target of URLs.
    #[doc(hidden)]
    pub fn place_of(mut self, url: &str) -> Result<PathBuf> {
        parse(url, &mut self)
    }
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// Until the disk has it: an acknowledged write survives a power cut.
    #[default]
    Full,
    /// Until the operating system has it: an acknowledged write survives the death of every process, but a
    /// power cut may take the last ones. The file stays sound either way.
    Normal,
}

/// Reads `sqlite:path`, `sqlite:path?synchronous=normal` or a bare path.
pub(crate) fn parse(url: &str, options: &mut SqliteOptions) -> Result<PathBuf> {
    let Some(name) = sqlite_file(url) else {
        return path(url, url);
    };
    for pair in url.split_once('?').map(|(_, query)| query).into_iter().flat_map(|query| query.split('&')) {
        match pair.to_ascii_lowercase().as_str() {
            "synchronous=full" => options.synchronous = Synchronous::Full,
            "synchronous=normal" => options.synchronous = Synchronous::Normal,
            "deploy_marks=on" => options.marks_deploys = true,
            "deploy_marks=off" => options.marks_deploys = false,
            _ => {
                let message = format!(
                    "unknown parameter in {:?}; use synchronous=full or synchronous=normal, deploy_marks=on or deploy_marks=off",
                    redact_url(url)
                );
                return Err(Error::new(ErrorKind::InvalidOption, message));
            }
        }
    }
    refuse_ambiguous(url, name)?;
    path(name, url)
}

/// Three slashes and a file: here that would be one at the root of the file system, where nobody keeps any, and in SQLAlchemy's URLs it is one
/// in the folder that the program runs in.
fn refuse_ambiguous(url: &str, name: &str) -> Result<()> {
    let Some(file) = name
        .strip_prefix('/')
        .filter(|file| url.starts_with("sqlite:///") && !file.is_empty() && !file.contains('/'))
    else {
        return Ok(());
    };
    let message = format!(
        "{:?} may mean two files; write sqlite:{file} for one in this folder, or sqlite:/{file}",
        redact_url(url)
    );
    Err(Error::new(ErrorKind::InvalidOption, message))
}

fn path(name: &str, url: &str) -> Result<PathBuf> {
    if name.contains(":memory:") {
        let message = format!(
            "{:?} asks for a database in memory, which loses every job; name a file",
            redact_url(url)
        );
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    if name.is_empty() || name.ends_with('/') || name.contains('\0') {
        let message = format!("{:?} names no file; use sqlite:FILE", redact_url(url));
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    if let Some(file) = name.strip_prefix("file:") {
        // SQLite would read it as a URI, and open another file.
        let message = format!("{:?} begins with two schemes; write sqlite:{file}", redact_url(url));
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    Ok(PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_paths_name_the_same_file() {
        for url in ["/a/b.db", "sqlite:/a/b.db", "sqlite:///a/b.db", "sqlite:/a/b.db?synchronous=full"] {
            assert_eq!(parse(url, &mut SqliteOptions::default()).unwrap(), PathBuf::from("/a/b.db"), "{url}");
        }
        for url in ["b.db", "sqlite:b.db", "sqlite://b.db"] {
            assert_eq!(parse(url, &mut SqliteOptions::default()).unwrap(), PathBuf::from("b.db"), "{url}");
        }
        let mut options = SqliteOptions::default();
        assert_eq!(parse("sqlite:b.db?synchronous=NORMAL", &mut options).unwrap(), PathBuf::from("b.db"));
        assert!(options.synchronous == Synchronous::Normal && options.marks_deploys);
        parse("sqlite:b.db?deploy_marks=off&synchronous=full", &mut options).unwrap();
        assert!(options.synchronous == Synchronous::Full && !options.marks_deploys);
    }

    #[test]
    fn what_names_no_file_is_refused() {
        for url in [
            "",
            "sqlite:",
            "sqlite://",
            "sqlite:///",
            "sqlite::memory:",
            ":memory:",
            "sqlite:a?mode=ro",
            "sqlite:a?deploy_marks=no",
            "sqlite:file:a.db",
            "file:a.db",
            "a\0b",
        ] {
            let error = parse(url, &mut SqliteOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}");
        }
    }

    #[test]
    fn what_sqlalchemy_means_otherwise_is_refused() {
        let error = parse("sqlite:///jobs.db?synchronous=normal", &mut SqliteOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        let text = error.to_string();
        assert!(text.contains("write sqlite:jobs.db for one in this folder, or sqlite:/jobs.db"), "{text}");
        assert_eq!(
            parse("sqlite:/jobs.db", &mut SqliteOptions::default()).unwrap(),
            PathBuf::from("/jobs.db")
        );
    }
}
