//! The watch over the workers of this process, once there is one: only in the addon that is built for windlass-chaos.

use std::sync::OnceLock;
use windlass_bridge::Client;
use windlass_chaos::actor::Watch;

pub(crate) static WATCH: OnceLock<Watch> = OnceLock::new();

/// The client as a worker is to use it.
pub(crate) fn of(client: &Client) -> Client {
    match WATCH.get() {
        Some(watch) => client.over(|store| watch.store(store)),
        None => client.clone(),
    }
}
