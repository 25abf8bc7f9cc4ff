//! Where the servers' programs are, and as whom they run.

use anyhow::{Context, Result, bail};
use std::{
    ffi::OsStr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The account of Debian's packages; servers refuse to run as root.
const SERVER_USER: &str = "postgres";

/// What `setpriv` asks the kernel to send to a server when this process dies.
#[derive(Clone, Copy)]
pub(crate) enum OnOurDeath {
    /// Nothing: for programs that end by themselves.
    Stay,
    /// SIGQUIT, PostgreSQL's immediate shutdown, which takes its backends along.
    Quit,
    Kill,
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The folder of PostgreSQL's programs: `WINDLASS_TEST_PGBIN`, else Debian's newest, else that of PATH.
pub(crate) fn postgres_folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("WINDLASS_TEST_PGBIN") {
        return Ok(folder.into());
    }
    let newest =
        std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let folder = entry.path().join("bin");
            folder.join("initdb").exists().then_some((version, folder))
        });
    if let Some((_, folder)) = newest.max() {
        return Ok(folder);
    }
    let initdb =
        find("initdb").context("no PostgreSQL server found; run `make deps` or set WINDLASS_TEST_PGBIN")?;
    Ok(initdb.parent().map_or_else(PathBuf::new, Path::to_path_buf))
}

/// A program of PATH or of the folders that PATH of an ordinary user leaves out.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Says that something is left out because `program` is not installed.
///
/// # Errors
/// Unless `WINDLASS_ALLOW_SKIP` is set: a proof with a hole that nobody asked for is none.
pub fn left_out(program: &str) -> Result<String> {
    if std::env::var_os("WINDLASS_ALLOW_SKIP").is_none() {
        bail!(
            "{program} is not installed; run `make deps`, or set WINDLASS_ALLOW_SKIP=1 to leave out what needs it"
        );
    }
    Ok(format!("{program} is not installed"))
}

/// The program as the servers' user, in `folder`, without input and output.
pub(crate) fn as_server_user(program: &Path, folder: &Path, on_our_death: OnOurDeath) -> Command {
    let signal = match on_our_death {
        OnOurDeath::Stay => None,
        OnOurDeath::Quit => Some("QUIT"),
        OnOurDeath::Kill => Some("KILL"),
    };
    let setpriv = find("setpriv");
    let mut command = match setpriv {
        Some(setpriv) if is_root() || signal.is_some() => {
            let mut command = Command::new(setpriv);
            if is_root() {
                command.args(["--reuid", SERVER_USER, "--regid", SERVER_USER, "--init-groups"]);
            }
            if let Some(signal) = signal {
                command.args(["--pdeathsig", signal]);
            }
            command.arg("--").arg(program);
            command
        }
        _ => Command::new(program),
    };
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Gives a file or folder to the servers' user, where that is another than ours.
pub(crate) fn give_to_server_user(path: &Path) -> Result<()> {
    if is_root() {
        run(Command::new("chown").arg(SERVER_USER).arg(path))?;
    }
    Ok(())
}

/// Runs a program to its end and answers what it wrote.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = || {
        let words = command.get_args().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
        format!("{} {words}", command.get_program().to_string_lossy())
    };
    let name = name();
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
