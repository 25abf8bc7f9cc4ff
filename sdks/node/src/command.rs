use napi_derive::napi;

/// Runs the command `windlass` with these args, the program's name first, and gives its exit code. For a process that ends then.
#[napi(catch_unwind)]
pub fn cli(args: Vec<String>) -> u8 {
    windlass_cli::main(args.into_iter().map(Into::into))
}
