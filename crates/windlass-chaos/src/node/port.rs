use anyhow::{Result, bail};
use std::net::{Ipv4Addr, TcpListener};

/// Below the ports that Linux gives to outgoing connections (32768 and up). A server that is down for a
/// moment would otherwise lose its port to a client's socket, or a client that reconnects to it would meet
/// itself.
const PORTS: std::ops::Range<u16> = 18_000..32_000;
const ATTEMPTS: usize = 100;

/// A port of the loopback interface on which nobody listens now. Somebody else may still take it first.
///
/// # Errors
/// When no port is found in a hundred attempts.
pub fn free_port() -> Result<u16> {
    for _ in 0..ATTEMPTS {
        let port = fastrand::u16(PORTS);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port on the loopback interface between {} and {}", PORTS.start, PORTS.end)
}
