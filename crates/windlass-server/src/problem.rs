//! Refusals as RFC 9457 problem details.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use windlass::{Error, ErrorKind};

/// Why a request was refused.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// Stable and machine-readable: that of an [`ErrorKind`], or one of this crate.
    pub(crate) code: &'static str,
    /// What was wrong, with which value, and what to do.
    detail: String,
    /// Where in the body: JSON pointer and what is wrong there.
    errors: Vec<(String, String)>,
    /// In seconds.
    retry_after: Option<u64>,
    /// Whether the write may have happened.
    ambiguous: bool,
    /// What the log says where the answer does not: messages of the store name its files, hosts and users.
    cause: Option<String>,
}

/// The most that is said of a mistake, in characters: what was asked may be quoted in it, and is as long as a head may be.
const LONGEST_DETAIL: usize = 2_000;

/// So much of it, and nothing that would steer a terminal.
fn bounded(detail: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    detail.chars().take(LONGEST_DETAIL).map(shown).collect()
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let (detail, errors) = (bounded(&detail.into()), Vec::new());
        Self { status, code, detail, errors, retry_after: None, ambiguous: false, cause: None }
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorKind::NotFound.code(), detail)
    }

    pub(crate) fn forbidden(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorKind::InvalidOption.code(), detail)
    }

    /// `most`: so many bytes the call takes.
    pub(crate) fn too_large(most: usize) -> Self {
        let detail =
            format!("the body is larger than the {most} bytes that this call takes; send less at once");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    pub(crate) fn at(mut self, pointer: String, detail: String) -> Self {
        self.errors.push((pointer, detail));
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Whether nobody knows if the write happened.
    pub(crate) fn may_be_done(&self) -> bool {
        self.ambiguous || self.status == StatusCode::GATEWAY_TIMEOUT
    }

    /// What it says to people.
    pub(crate) fn detail(self) -> String {
        self.detail
    }

    /// A line of the log: a defect is an error, what the server or its store cannot do now a warning, what a caller did wrong is for who looks
    /// into that.
    pub(crate) fn log(&self, request_id: &str, route: &str) {
        let Self { code, detail, cause, .. } = self;
        let cause = cause.as_ref().unwrap_or(detail);
        match self.status {
            StatusCode::INTERNAL_SERVER_ERROR => {
                tracing::error!(request_id, route, code, cause, "failed by a defect or a damaged store");
            }
            StatusCode::NOT_IMPLEMENTED => tracing::debug!(request_id, route, code, "refused"),
            status if status.is_server_error() => {
                tracing::warn!(request_id, route, code, cause, "could not be answered");
            }
            _ => tracing::debug!(request_id, route, code, "refused"),
        }
    }

    /// The document; `request` names the request in the log.
    pub(crate) fn json(&self, request: &str) -> Value {
        let words = self.code.replace('_', " ");
        let title = words[..1].to_uppercase() + &words[1..];
        let mut body = json!({
            "type": format!("/problems/{}", self.code),
            "title": title,
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
            "request_id": request,
        });
        if !self.errors.is_empty() {
            let errors =
                self.errors.iter().map(|(pointer, detail)| json!({"pointer": pointer, "detail": detail}));
            body["errors"] = errors.collect();
        }
        if self.ambiguous {
            body["ambiguous"] = true.into();
        }
        body
    }

    /// The whole answer.
    pub(crate) fn response(&self, request: &str) -> Response {
        let media = [(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))];
        let mut response = (self.status, media, self.json(request).to_string()).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Without a body: the outermost layer writes it, which knows the id of the request.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        let problem = Self::new(status(kind), kind.code(), detail(&error));
        let retry_after = (kind == ErrorKind::Unavailable).then_some(1);
        let cause = Some(error.to_string());
        let problem = Self { ambiguous: error.is_ambiguous(), retry_after, cause, ..problem };
        match error.job_index() {
            Some(index) => problem.at(format!("/jobs/{index}"), error.reason().to_owned()),
            None => problem,
        }
    }
}

fn detail(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Internal => "the server failed; its log says more under this request_id".to_owned(),
        // The message names files, hosts and users of the store.
        ErrorKind::Unavailable => "the store cannot be reached now; try again".to_owned(),
        ErrorKind::Ambiguous => {
            "the connection to the store broke: the write may or may not have happened".to_owned()
        }
        _ => error.to_string(),
    }
}

fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::InvalidArgs | ErrorKind::InvalidName | ErrorKind::InvalidOption => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        ErrorKind::UniqueConflict => StatusCode::CONFLICT,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorKind::LeaseLost | ErrorKind::EventsExpired => StatusCode::GONE,
        ErrorKind::Undecryptable => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Unavailable | ErrorKind::Ambiguous => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::SchemaMissing | ErrorKind::SchemaTooNew | ErrorKind::SchemaTooOld => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        ErrorKind::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        // Internal, and kinds that are newer than this table: the test below finds those.
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The field at this place of the body makes no sense.
pub(crate) fn wrong_at(pointer: &str, what: String) -> Problem {
    Problem::invalid(format!("{pointer}: {what}")).at(pointer.to_owned(), what)
}

/// A key as a part of a JSON pointer (RFC 6901).
pub(crate) fn pointer_token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_status() {
        for kind in ErrorKind::ALL {
            let problem = Problem::from(Error::new(kind, "file /srv/jobs.db, value 7"));
            assert_eq!(problem.code, kind.code());
            assert_eq!(
                problem.status == 500,
                kind == ErrorKind::Internal,
                "{kind:?} has no status of its own"
            );
            let body = problem.json("r1");
            assert_eq!(body["title"].as_str().unwrap().to_lowercase().replace(' ', "_"), kind.code());
            let hidden = [ErrorKind::Internal, ErrorKind::Unavailable, ErrorKind::Ambiguous].contains(&kind);
            assert_eq!(body["detail"].as_str().unwrap().contains("/srv"), !hidden, "{body}");
            assert_eq!(body.get("ambiguous").is_some(), kind == ErrorKind::Ambiguous);
        }
    }

    #[test]
    fn a_job_of_several_is_pointed_at() {
        let error = Error::new(ErrorKind::InvalidName, "queue \"a b\"").of_job(3, 5);
        assert_eq!(Problem::from(error).json("r")["errors"][0]["pointer"], "/jobs/3");
    }
}
