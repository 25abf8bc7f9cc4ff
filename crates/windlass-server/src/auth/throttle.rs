//! Failed logins: the answer gets slower for who fails. Who has a right token is never kept out.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// So many failures of an address are answered at once.
const FREE: u32 = 5;
/// Then one is per this time, which doubles up to the longest.
const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// So many failures a minute are answered of all addresses.
const OF_ALL: u32 = 100;
/// So many addresses are remembered.
const MOST: usize = 10_000;

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    next: Instant,
}

/// The failures of late.
pub(super) struct Throttle(Mutex<State>);

struct State {
    minute: Instant,
    in_minute: u32,
    of: HashMap<IpAddr, Failures>,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { minute: Instant::now(), in_minute: 0, of: HashMap::new() }))
    }

    /// Notes a failure; how long to wait before the next, where this one is one too many.
    pub(super) fn failed(&self, address: IpAddr) -> Option<Duration> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now - state.minute >= Duration::from_secs(60) {
            (state.minute, state.in_minute) = (now, 0);
        }
        state.in_minute += 1;
        let address = network(address);
        if !state.of.contains_key(&address) && state.of.len() >= MOST {
            state.of.retain(|_, failures| failures.next + LONGEST > now);
        }
        let is_full = state.of.len() >= MOST && !state.of.contains_key(&address);
        if is_full || state.in_minute > OF_ALL {
            return Some(FIRST);
        }
        let failures = state.of.entry(address).or_insert(Failures { count: 0, next: now });
        // Who was quiet for long begins anew.
        if failures.next + LONGEST < now {
            *failures = Failures { count: 0, next: now };
        }
        if now < failures.next {
            return Some(failures.next - now);
        }
        failures.count += 1;
        if failures.count == FREE {
            tracing::warn!(target: "windlass::audit", %address, "logins fail; their answers are slowed down");
        }
        if let Some(over) = failures.count.checked_sub(FREE) {
            failures.next = now + FIRST.saturating_mul(1 << over.min(10)).min(LONGEST);
        }
        None
    }
}

/// What one holder of addresses has: with IPv6 a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_of_an_address_are_slowed_down_more_and_more() {
        let throttle = Throttle::new();
        let [one, neighbour, other] =
            ["2001:db8::1", "2001:db8::2:1", "2001:db8:0:1::1"].map(|text| text.parse().unwrap());
        for _ in 0..FREE {
            assert_eq!(throttle.failed(one), None);
        }
        assert_eq!(throttle.failed(neighbour), Some(FIRST));
        assert_eq!(throttle.failed(other), None);
        tokio::time::advance(FIRST).await;
        assert_eq!((throttle.failed(one), throttle.failed(one)), (None, Some(2 * FIRST)));
        tokio::time::advance(LONGEST * 3).await;
        assert_eq!((throttle.failed(one), throttle.failed(one)), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_are_slowed_down_together() {
        let throttle = Throttle::new();
        let at = |n: u32| IpAddr::from((0x0a00_0000 + n).to_be_bytes());
        assert!((0..OF_ALL).all(|n| throttle.failed(at(n)).is_none()));
        assert!(throttle.failed(at(OF_ALL)).is_some());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(throttle.failed(at(OF_ALL)).is_none());
    }
}
