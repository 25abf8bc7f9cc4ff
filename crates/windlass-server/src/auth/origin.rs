//! Whether a browser asks for one of our own pages, or for somebody else's.

use crate::problem::Problem;
use axum::http::{HeaderMap, header};
use std::net::IpAddr;

/// The port that `https` and `http` have where a URL names none is left out in both headers alike.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether `Host` names this machine itself, with this port.
pub(super) fn is_loopback_host(headers: &HeaderMap, port: Option<u16>) -> bool {
    let Some(host) = text(headers, "host") else { return false };
    let (name, said) = split(host);
    let is_ours = match port {
        Some(port) => said == Some(port) || (said.is_none() && port == 80),
        None => true,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    is_ours && (name == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()))
}

/// Whether `Host` is one of these names, whatever its port.
pub(super) fn is_host_of(headers: &HeaderMap, hosts: &[String]) -> bool {
    let name = text(headers, "host").map(|host| split(host).0);
    name.is_some_and(|name| hosts.iter().any(|host| host.eq_ignore_ascii_case(name)))
}

fn split(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && !port.contains(']') => (name, port.parse().ok()),
        _ => (host, None),
    }
}

/// Whether a proxy says that it passes this request on.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(header::FORWARDED)
        || headers.keys().any(|name| name.as_str().starts_with("x-forwarded-"))
        || headers.contains_key("x-real-ip")
}

/// Reads are for our own pages, and for programs: no other page embeds them.
pub(crate) fn check_read(headers: &HeaderMap) -> Result<(), Problem> {
    match text(headers, "sec-fetch-site") {
        None | Some("same-origin" | "none") => Ok(()),
        Some(site) => Err(other_site(site)),
    }
}

/// Writes by what a browser sends by itself (a cookie, its address) come from our own pages only. `programs`: how others write here.
pub(crate) fn check_write(headers: &HeaderMap, programs: &str) -> Result<(), Problem> {
    match (text(headers, "sec-fetch-site"), text(headers, "origin")) {
        (Some("same-origin"), _) => Ok(()),
        (Some(site), _) => Err(other_site(site)),
        (None, Some(origin)) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            let ours = text(headers, "host");
            if host.is_some() && host == ours { Ok(()) } else { Err(other_site(origin)) }
        }
        (None, None) => {
            let detail = format!(
                "a write without a token needs a browser's Sec-Fetch-Site or Origin header; {programs}"
            );
            Err(Problem::forbidden("foreign_origin", detail))
        }
    }
}

fn other_site(site: &str) -> Problem {
    let site: String = site.chars().take(100).collect();
    Problem::forbidden(
        "foreign_origin",
        format!("asked from another site ({site:?}); only our own pages may"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn other_names_of_this_machine_are_refused() {
        for (host, good) in [
            ("localhost:7411", true),
            ("127.0.0.1:7411", true),
            ("[::1]:7411", true),
            ("127.0.0.1:7412", false),
            ("127.0.0.1", false),
            ("evil.example:7411", false),
            ("localhost.evil.example:7411", false),
            ("", false),
        ] {
            assert_eq!(is_loopback_host(&headers(&[("host", host)]), Some(7411)), good, "{host}");
        }
        assert!(
            !is_loopback_host(&HeaderMap::new(), None)
                && is_loopback_host(&headers(&[("host", "[::1]")]), None)
        );
    }

    #[test]
    fn writes_come_from_our_own_pages() {
        let (host, ours) = (("host", "jobs.example:8443"), ("origin", "https://jobs.example:8443"));
        for good in [&[("sec-fetch-site", "same-origin")][..], &[host, ours]] {
            check_write(&headers(good), "").unwrap();
        }
        for bad in [
            &[][..],
            &[host],
            &[("sec-fetch-site", "same-site"), host, ours],
            &[("sec-fetch-site", "none"), host, ours],
            &[host, ("origin", "https://evil.example")],
            &[host, ("origin", "null")],
            &[ours],
        ] {
            assert_eq!(check_write(&headers(bad), "").unwrap_err().code, "foreign_origin", "{bad:?}");
        }
    }
}
