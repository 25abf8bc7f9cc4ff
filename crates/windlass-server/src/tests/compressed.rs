use super::site::Site;
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, Request},
};
use http_body_util::BodyExt;
use tower::ServiceExt;

async fn get(site: &Site, path: &str, encodings: Option<&str>) -> (HeaderMap, Bytes) {
    let mut request = Request::get(path);
    if let Some(encodings) = encodings {
        request = request.header("accept-encoding", encodings);
    }
    let answer = site.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    let (head, body) = answer.into_parts();
    (head.headers, body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn script_and_style_come_compressed_to_who_reads_that() {
    let site = Site::in_memory();
    let (_, page) = get(&site, "/", None).await;
    let page = String::from_utf8(page.to_vec()).unwrap();
    let linked: Vec<_> =
        page.split('"').filter(|part| part.ends_with(".js") || part.ends_with(".css")).collect();
    assert_eq!(linked.len(), 3, "{page}");
    for name in linked {
        let path = format!("/{name}");
        let (head, plain) = get(&site, &path, Some("br, identity")).await;
        assert!(!head.contains_key("content-encoding") && head["vary"] == "Accept-Encoding", "{head:?}");
        let (head, small) = get(&site, &path, Some("gzip, deflate, br")).await;
        assert_eq!(
            (&head["content-encoding"], &head["vary"]),
            (&"gzip".parse().unwrap(), &"Accept-Encoding".parse().unwrap())
        );
        assert_eq!(head["cache-control"], "public, max-age=31536000, immutable");
        assert!(
            small.starts_with(&[0x1f, 0x8b]) && small.len() < plain.len(),
            "{name}: {} of {}",
            small.len(),
            plain.len()
        );
        // The last four bytes say how long it is once it is read.
        let length = u32::from_le_bytes(small[small.len() - 4..].try_into().unwrap());
        assert_eq!(length as usize, plain.len(), "{name}");
    }
    for path in ["/", "/licenses.txt"] {
        let (head, _) = get(&site, path, Some("gzip")).await;
        assert!(!head.contains_key("content-encoding"), "{path}");
    }
}
