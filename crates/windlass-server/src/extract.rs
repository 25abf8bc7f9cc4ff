//! What requests say, read strictly: unknown fields, wrong types and other media are refused.

use crate::{
    bodies::Room,
    objects::{Objects, ROOM},
    problem::{Problem, pointer_token},
};
use axum::{
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{StatusCode, header, request::Parts},
};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use hyper::body::Body as _;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_path_to_error::Segment;
use std::{cell::Cell, fmt::Write, time::Duration};
use tokio::time::timeout;
use windlass::JobId;
use windlass_bridge::in_words;

/// A JSON body, bounded by the route's limit, with its room.
pub(crate) struct Body(Bytes, Option<Room>);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(mut request: Request, _: &S) -> Result<Self, Problem> {
        let refused =
            |detail| Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail);
        let media = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media = media.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !media.eq_ignore_ascii_case("application/json") {
            return Err(refused(format!("the body must be application/json, got {media:?}")));
        }
        let coding = request.headers().get(header::CONTENT_ENCODING).filter(|coding| *coding != "identity");
        if let Some(coding) = coding {
            let detail =
                format!("the body is sent with Content-Encoding {coding:?}; send it as it is, without that");
            return Err(refused(detail));
        }
        let room = request.extensions_mut().remove::<Room>();
        let most = request.extensions().get().map_or(usize::MAX, |most: &Most| most.0);
        let whole = read_whole(request.into_body(), most, room.is_some()).await?;
        let room = room.map(|room| room.of(whole.len()));
        Ok(Self(whole, room))
    }
}

/// The largest body that a call takes, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Most(pub(crate) usize);

/// What a body may take to arrive: less than an answer, so that it is known that nothing was done.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(25);

/// One that has its room brings something at least so often, or others get that.
const SILENCE: Duration = Duration::from_secs(5);

/// The body did not come in time. It is the client that is slow, and whatever it was for has not begun.
pub(crate) fn late(what: &str, time: Duration) -> Problem {
    let detail = format!("{what} within {} s; nothing was done, send it again", time.as_secs());
    Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail)
}

/// The whole body of a request, if it has no more bytes than `most`.
pub(crate) async fn read_whole(
    body: axum::body::Body,
    most: usize,
    has_room: bool,
) -> Result<Bytes, Problem> {
    let silence = if has_room { SILENCE } else { BODY_TIME };
    let read = async {
        let said = usize::try_from(body.size_hint().lower()).unwrap_or(most);
        let mut whole = BytesMut::with_capacity(said.min(most));
        let mut parts = body.into_data_stream();
        while let Some(part) =
            timeout(silence, parts.next()).await.map_err(|_| late("no more of the body came", silence))?
        {
            let part = part.map_err(|_| {
                let detail = "the body did not arrive as its head says; nothing was done";
                Problem::new(StatusCode::BAD_REQUEST, "malformed", detail)
            })?;
            if whole.len() + part.len() > most {
                return Err(Problem::too_large(most));
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    };
    timeout(BODY_TIME, read).await.unwrap_or_else(|_| Err(late("the body did not arrive", BODY_TIME)))
}

impl Body {
    /// As it came.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// It is not needed any more; its room is, as long as what was read of it.
    pub(crate) fn into_room(self) -> Option<Room> {
        self.1
    }

    /// Reads it.
    pub(crate) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        read_object(&self.0, "")
    }
}

/// Reads the object that is JSON, and at this place of the body.
pub(crate) fn read_object<'a, T: Deserialize<'a>>(json: &'a [u8], at: &str) -> Result<T, Problem> {
    if json.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        serde_json::from_slice::<IgnoredAny>(json).map_err(|error| malformed(&error))?;
        let what = "must be a JSON object".to_owned();
        return Err(Problem::invalid(format!("{} {what}", place(at))).at(at.to_owned(), what));
    }
    let (mut reader, room) = (serde_json::Deserializer::from_slice(json), Cell::new(ROOM));
    let read = serde_path_to_error::deserialize(Objects(&mut reader, &room));
    let read = read.map_err(|error| refused(&error, at, json))?;
    reader.end().map_err(|error| malformed(&error))?;
    Ok(read)
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "the body" } else { pointer }
}

fn malformed(error: &serde_json::Error) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "malformed", format!("the body is no JSON: {error}"))
}

fn refused(error: &serde_path_to_error::Error<serde_json::Error>, at: &str, json: &[u8]) -> Problem {
    // What is JSON and does not fit is not always called so by serde_json.
    if !error.inner().is_data() && serde_json::from_slice::<IgnoredAny>(json).is_err() {
        return malformed(error.inner());
    }
    let mut pointer = at.to_owned();
    for segment in error.path() {
        let _ = match segment {
            Segment::Seq { index } => write!(pointer, "/{index}"),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                write!(pointer, "/{}", pointer_token(key))
            }
            Segment::Unknown => Ok(()),
        };
    }
    let text = error.inner().to_string();
    let text = in_words(text.split(" at line ").next().unwrap_or_default());
    Problem::invalid(format!("{}: {text}", place(&pointer))).at(pointer, text)
}

/// The query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            return Err(Problem::invalid("a parameter has a NUL character (%00), which nothing here has"));
        }
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        read.map(|query| Self(query.0)).map_err(|refused| Problem::invalid(of_query(&refused.body_text())))
    }
}

/// Why a query makes no sense, in words that are not Rust's.
fn of_query(said: &str) -> String {
    let said = said.strip_prefix("Failed to deserialize query string: ").unwrap_or(said);
    let Some((name, why)) = said.split_once(": ") else { return format!("the query: {said}") };
    let why = match why {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number"
        }
        "number too large to fit in target type" | "number too small to fit in target type" => {
            "is out of range"
        }
        other => other,
    };
    format!("the parameter {name}: {why}")
}

/// A name in the path.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let path = path.map_err(|refused| Problem::not_found(refused.body_text()))?;
        checked(path.0).map(Self)
    }
}

/// The longest name of anything has a fifth of it.
const LONGEST_NAME: usize = 1_000;

/// What nothing can be called is asked of no store: each would have words of its own for it, and repeat it.
fn checked(name: String) -> Result<String, Problem> {
    if name.len() <= LONGEST_NAME && !name.contains(char::is_control) {
        return Ok(name);
    }
    let what = if name.len() > LONGEST_NAME { "so long a name" } else { "a name with a control character" };
    Err(Problem::not_found(format!(
        "there is nothing of {what}; names have 1 to {LONGEST_NAME} bytes of visible text"
    )))
}

/// Two names in the path: of what something is, and which.
pub(crate) struct Names(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Names {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let (of, which) = path.map_err(|refused| Problem::not_found(refused.body_text()))?.0;
        Ok(Self(checked(of)?, which))
    }
}

/// The id of a job in the path.
pub(crate) struct Id(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Name(text) = Name::from_request_parts(parts, state).await?;
        parse_id(&text).map(Self)
    }
}

/// An id as text, as JavaScript loses digits of large numbers.
pub(crate) fn parse_id(text: &str) -> Result<JobId, Problem> {
    match text.parse() {
        Ok(id) if id > 0 => Ok(JobId(id)),
        _ => {
            let text: String = text.chars().take(40).collect();
            Err(Problem::not_found(format!("there is no job {text:?}; ids are numbers above 0")))
        }
    }
}
