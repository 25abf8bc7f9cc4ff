//! The `windlass` command.

fn main() -> std::process::ExitCode {
    windlass_cli::main(std::env::args_os()).into()
}
