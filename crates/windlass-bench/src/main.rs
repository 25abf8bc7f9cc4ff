//! The `windlass-bench` command.

fn main() -> std::process::ExitCode {
    windlass_bench::main()
}
