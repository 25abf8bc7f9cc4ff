//! The native module of the Python package `windlass`: the engine, lent to Python.
//!
//! # Architecture invariants
//!
//! * No thread of the engine ever enters the interpreter: Python takes jobs and answers when it likes, and is woken by a byte in a pipe.
//! * Whoever waits has let go of the interpreter, and nobody holds a lock of ours then.
//! * No rule of the queue lives here, nor one of the Python interface: see `python/windlass`.

// Nothing of it can be tested without Python; `cargo test --lib` builds every library once more for its tests, also one that says that it has none.
#![cfg(not(test))]

mod call;
mod client;
mod desk;
mod failure;
mod job;
mod logs;
mod parse;
mod port;
mod signal;
mod thread_desk;
#[cfg(feature = "witness")]
mod witness;
mod worker;

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command `windlass` with these args, the program's name first, and gives its exit code. For a process that ends then.
#[pyfunction]
fn cli(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| windlass_cli::main(args))
}

/// Has the kernel end this process, at once, when the thread that started it ends, where kernels do that (Linux).
#[pyfunction]
fn die_with_parent() -> PyResult<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(std::io::Error::from)?;
    Ok(())
}

/// To be called before the process forks, and one of the other two after it, in the parent and in the child: see [`windlass_bridge::fork`].
#[pyfunction]
fn before_fork(py: Python<'_>) {
    py.detach(windlass_bridge::fork::prepare);
}

#[pyfunction]
fn after_fork_in_parent() {
    windlass_bridge::fork::parent();
}

#[pyfunction]
fn after_fork_in_child() {
    windlass_bridge::fork::child();
}

/// What the Python package imports.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<call::Call>()?;
    module.add_class::<client::Client>()?;
    module.add_class::<desk::Desk>()?;
    module.add_class::<job::Job>()?;
    module.add_class::<port::Port>()?;
    module.add_class::<thread_desk::ThreadDesk>()?;
    module.add_class::<worker::Worker>()?;
    module.add_function(wrap_pyfunction!(job::args_of, module)?)?;
    module.add_function(wrap_pyfunction!(cli, module)?)?;
    module.add_function(wrap_pyfunction!(die_with_parent, module)?)?;
    module.add_function(wrap_pyfunction!(before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork_in_parent, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork_in_child, module)?)?;
    module.add_function(wrap_pyfunction!(logs::listen, module)?)?;
    module.add_function(wrap_pyfunction!(logs::logged, module)?)?;
    module.add_function(wrap_pyfunction!(logs::mark_logs, module)?)?;
    #[cfg(feature = "witness")]
    {
        module.add_function(wrap_pyfunction!(witness::watch, module)?)?;
        module.add_function(wrap_pyfunction!(witness::note, module)?)?;
    }
    module.add_function(wrap_pyfunction!(parse::parse, module)?)
}
