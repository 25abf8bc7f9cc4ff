//! The one thread that starts children.
//!
//! The kernel's parent-death signal is sent when the *thread* that started the child ends, and the threads of
//! `spawn_blocking` and of tests do end. This thread lives as long as the process.

use anyhow::{Context, Result, anyhow};
use std::{
    process::{Child, Command},
    sync::{OnceLock, mpsc},
};

type Order = (Command, mpsc::SyncSender<std::io::Result<Child>>);

static NURSERY: OnceLock<mpsc::Sender<Order>> = OnceLock::new();

/// Starts a program on the thread that lives as long as this process.
pub(crate) fn spawn(command: Command) -> Result<Child> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (answer, child) = mpsc::sync_channel(1);
    let nursery = NURSERY.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in inbox {
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    nursery.send((command, answer)).map_err(|_| anyhow!("the thread that starts children is gone"))?;
    child.recv()?.with_context(|| format!("cannot start {name}"))
}
