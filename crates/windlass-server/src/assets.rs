//! The dashboard's files, embedded.

use crate::{app::App, problem::Problem};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use std::sync::Arc;

struct Asset {
    path: &'static str,
    media: &'static str,
    /// Its name has a hash of its content.
    immutable: bool,
    bytes: &'static [u8],
    /// The same, compressed.
    gzip: Option<&'static [u8]>,
}

static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

const INDEX: &str = "index.html";

/// What the addresses of its pages begin with, as in `dashboard/src/app.tsx`.
const PAGES: [&str; 6] = ["", "audit", "jobs", "queues", "schedules", "workers"];

/// A file of the dashboard, or a page of it, which its script shows. What is neither is not there: also for people, who are told so by the page.
pub(crate) async fn serve(State(app): State<Arc<App>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let path = parts.uri.path().trim_matches('/').to_owned();
    let calls = match path.split('/').next() {
        Some("api") => Some("GET /api/v1/openapi.json lists them"),
        Some("work") => Some("docs/protocols/http.md lists those of workers"),
        _ => None,
    };
    if let Some(calls) = calls {
        return Problem::not_found(format!("there is no such call; {calls}")).into_response();
    }
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        let detail = "pages are read by GET; the API is at /api/v1";
        return Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail).into_response();
    }
    let asset = ASSETS.iter().find(|asset| asset.path == path && path != INDEX);
    let (base, _) = app.base(&mut parts).await;
    let first = path.split('/').next().unwrap_or_default();
    match asset {
        Some(asset) => file(asset, &parts.headers),
        None if PAGES.contains(&first) => index(&base),
        None if path.contains('.') => Problem::not_found("there is no such file").into_response(),
        None => (StatusCode::NOT_FOUND, index(&base)).into_response(),
    }
}

fn file(asset: &Asset, asked: &HeaderMap) -> Response {
    let cache = if asset.immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let head = [(header::CONTENT_TYPE, asset.media), (header::CACHE_CONTROL, cache)];
    let Some(gzip) = asset.gzip else { return (head, asset.bytes).into_response() };
    // Caches on the way keep both.
    let vary = [(header::VARY, "Accept-Encoding")];
    if takes_gzip(asked) {
        return (head, vary, [(header::CONTENT_ENCODING, "gzip")], gzip).into_response();
    }
    (head, vary, asset.bytes).into_response()
}

/// Whether who asks reads gzip: it is named with a weight that is not 0, or everything is.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    let codings: Vec<(&str, bool)> = lists
        .flat_map(|list| list.split(','))
        .map(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
            let weight = weight.trim().trim_start_matches(['q', 'Q']).trim_start_matches('=').parse::<f32>();
            (name.trim(), weight.is_ok_and(|weight| weight > 0.0))
        })
        .collect();
    let named = |wanted: &str| codings.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    named("gzip").or_else(|| named("*")).is_some_and(|(_, takes)| *takes)
}

fn index(base: &str) -> Response {
    let index = ASSETS.iter().find(|asset| asset.path == INDEX).map_or(&b""[..], |asset| asset.bytes);
    let page = with_base(&String::from_utf8_lossy(index), base);
    let media = HeaderValue::from_static("text/html; charset=utf-8");
    ([(header::CONTENT_TYPE, media), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))], page)
        .into_response()
}

/// The page with its own path in the place of that of its `<base>`, so that it works under any.
fn with_base(page: &str, base: &str) -> String {
    const MARK: &str = "<base href=\"";
    let base: String = base.chars().filter(|c| !matches!(c, '"' | '<' | '>' | '&')).collect();
    match page.split_once(MARK) {
        Some((before, rest)) => {
            let after = rest.split_once('"').map_or(rest, |(_, after)| after);
            format!("{before}{MARK}{base}\"{after}")
        }
        None => page.replacen("<head>", &format!("<head><base href=\"{base}\">"), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_knows_its_path() {
        let expected = "<head><base href=\"/jobs/\"></head>";
        assert_eq!(with_base("<head><base href=\"/\"></head>", "/jobs/"), expected);
        assert_eq!(with_base("<head></head>", "/jobs/"), expected);
        assert_eq!(with_base("<head></head>", "/\"><script>/"), "<head><base href=\"/script/\"></head>");
    }

    #[test]
    fn gzip_is_for_who_reads_it() {
        for (said, takes) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=1.0, GZIP;q=0.8, *;q=0.1", true),
            ("*", true),
            ("gzip;q=0, *", false),
            ("gzip; q=0.000", false),
            ("br", false),
            ("identity", false),
            ("", false),
        ] {
            let headers = [(header::ACCEPT_ENCODING, HeaderValue::from_static(said))].into_iter().collect();
            assert_eq!(takes_gzip(&headers), takes, "{said:?}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn the_manifest_has_the_page() {
        assert!(ASSETS.iter().any(|asset| asset.path == INDEX && !asset.immutable));
    }
}
