//! The keys that are pressed.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    future::pending,
    io::{self, IsTerminal},
    thread,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Ctrl-C, which makes no signal while keys are read one by one; and Ctrl-D, which is also what a terminal that has gone says.
pub(super) const INTERRUPT: u8 = 3;
pub(super) const END: u8 = 4;
const ESCAPE: u8 = 27;

/// How long its thread may outlive it.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Keys, from a thread of their own: a read that waits could not be given up.
pub(super) struct Keys(Option<Receiver<u8>>);

impl Keys {
    /// Those of stdin from now on; none when it is no terminal.
    pub(super) fn listen() -> Self {
        if !io::stdin().is_terminal() {
            return Self(None);
        }
        let (sender, receiver) = channel(16);
        thread::spawn(move || read(&sender));
        Self(Some(receiver))
    }

    /// The next of them; [`END`] when there are no more.
    pub(super) async fn next(&mut self) -> u8 {
        match &mut self.0 {
            Some(receiver) => receiver.recv().await.unwrap_or(END),
            None => pending().await,
        }
    }
}

fn read(sender: &Sender<u8>) {
    let stdin = io::stdin();
    while !sender.is_closed() {
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&PATIENCE)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        let mut bytes = [0; 32];
        match rustix::io::read(&stdin, &mut bytes) {
            // What begins so is one key with a name, such as an arrow.
            Ok(1..) if bytes[0] == ESCAPE => {}
            Ok(count @ 1..) => {
                if bytes[..count].iter().any(|key| sender.blocking_send(*key).is_err()) {
                    return;
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            _ => return,
        }
    }
}
