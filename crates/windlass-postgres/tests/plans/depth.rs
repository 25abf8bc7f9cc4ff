/// How many rows there are in a deep table: 10^6; set less for a quick look.
pub(crate) fn deep() -> i64 {
    depth(1_000_000)
}

/// How many jobs the deepest backlog has: 2 * 10^6. `make chaos` tries 10^7, which take minutes.
pub(crate) fn deepest() -> i64 {
    depth(2_000_000)
}

fn depth(meant: i64) -> i64 {
    std::env::var("WINDLASS_TEST_DEEP").ok().and_then(|n| n.parse().ok()).unwrap_or(meant)
}
