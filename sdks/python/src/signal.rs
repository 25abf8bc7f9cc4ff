use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::{FdFlags, fcntl_setfd, read, write},
    pipe::pipe,
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

/// Wakes an event loop that watches a file descriptor, from any thread and without the interpreter. What was signalled and not yet
/// looked at is signalled once.
#[derive(Debug)]
pub(crate) struct Signal {
    reader: OwnedFd,
    writer: OwnedFd,
    is_raised: AtomicBool,
}

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe()?;
        for fd in [&reader, &writer] {
            fcntl_setfd(fd, FdFlags::CLOEXEC)?;
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { reader, writer, is_raised: AtomicBool::new(false) })
    }

    /// What there is to be looked at must be there before.
    pub(crate) fn raise(&self) {
        if !self.is_raised.swap(true, Ordering::AcqRel) {
            // One byte always fits into an empty pipe.
            let _ = write(&self.writer, &[0]);
        }
    }

    /// To be called before one looks at what there is: what comes from now on is signalled again.
    pub(crate) fn clear(&self) {
        let _ = read(&self.reader, &mut [0; 8][..]);
        self.is_raised.store(false, Ordering::Release);
    }

    /// The descriptor to watch for reading.
    pub(crate) fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }
}
