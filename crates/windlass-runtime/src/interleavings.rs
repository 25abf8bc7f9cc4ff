//! What threads share, under shuttle: real queue runners, executors, settler and epochs, in thousands of random orders.
//!
//! shuttle switches between tasks at every lock and atomic of [`crate::sync`]. The `Notify`, `Semaphore` and
//! `CancellationToken` are tokio's own: each of their operations is one step here, and their insides are tested
//! by tokio. Nothing drives tokio's timers, so what these tests wait for must come from a wake-up. The claimer,
//! the heartbeat and the shutdown's deadlines live by timers; the simulator covers them.

#[path = "../tests/fake/mod.rs"]
mod fake;

mod bench;
mod epochs;
mod lending;
mod settling;
mod slots;

/// Orders to try, of each kind.
const ORDERS: usize = 2_000;
/// How many forced switches an order of the second kind has.
const SWITCHES: usize = 3;

/// Runs `test` in many orders. A failing order is printed; `shuttle::replay` repeats it.
fn in_every_order(test: fn()) {
    let threads = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let _guard = threads.as_ref().expect("a runtime for its timers").enter();
    let orders =
        std::env::var("WINDLASS_ORDERS").ok().and_then(|orders| orders.parse().ok()).unwrap_or(ORDERS);
    shuttle::check_random(test, orders);
    shuttle::check_pct(test, orders, SWITCHES);
}
