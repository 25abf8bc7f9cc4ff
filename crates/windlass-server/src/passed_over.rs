//! What a request says and its call would not read. It was meant for something, as `?dry_run=true` of a DELETE is: so it is refused, and nothing is done.

use crate::problem::Problem;
use axum::{
    body::{Body, to_bytes},
    http::Uri,
};

/// A body that says nothing is no longer.
const LONGEST: usize = 64;

/// Refuses parameters of a call that has none.
pub(crate) fn refuse_parameters(uri: &Uri) -> Result<(), Problem> {
    let said = uri.query().unwrap_or_default().split('&').find(|parameter| !parameter.is_empty());
    said.map_or(Ok(()), |parameter| {
        let name = parameter.split('=').next().unwrap_or_default();
        Err(Problem::invalid(format!("unknown parameter `{name}`: this call has none; nothing was done")))
    })
}

/// Refuses the body of a call that has none, but for what some clients add to each of theirs: `{}` and `null`.
pub(crate) async fn refuse_body(body: Body) -> Result<(), Problem> {
    let says_nothing = to_bytes(body, LONGEST).await.is_ok_and(|body| {
        let body = body.trim_ascii();
        body.is_empty()
            || body == b"null"
            || body.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii() == b"}")
    });
    match says_nothing {
        true => Ok(()),
        false => Err(Problem::invalid(
            "this call has no body, and what was sent would be passed over; nothing was done",
        )),
    }
}
