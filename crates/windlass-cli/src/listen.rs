//! Addresses that commands listen on.

use crate::failure::{Failure, Outcome};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

/// Listens there; `option` says where another address would be named.
pub(crate) async fn on(address: SocketAddr, option: &str) -> Outcome<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let message = format!("cannot listen on {address}: {error}; name another address with {option}");
        Failure::failed("io", message)
    })
}

/// Reads an address; a port by itself, or of localhost, is one that only this machine reaches.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    let port = text
        .strip_prefix("localhost:")
        .unwrap_or(text)
        .parse()
        .map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    port.or_else(|_| text.parse()).map_err(|_| {
        format!(
            "{text:?} is no address; write a port as 9464 for this machine alone, or 0.0.0.0:9464 for others"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        for (text, address) in [
            ("9464", "127.0.0.1:9464"),
            ("localhost:80", "127.0.0.1:80"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), address);
        }
        for wrong in ["", "localhost", ":80", "65536", "10.0.0.1", "shop.example:80"] {
            assert!(parse(wrong).unwrap_err().contains("0.0.0.0:9464"), "{wrong}");
        }
    }
}
