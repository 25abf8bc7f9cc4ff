//! The command `windlass-chaos`.

fn main() {
    println!("windlass-chaos: see --help");
}
