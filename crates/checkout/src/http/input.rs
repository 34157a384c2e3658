//! Extracts and checks the input of requests, with our own error messages.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::problem::Problem;
use crate::id::Id;
use crate::json::Object;
use crate::storage::Key;

/// The longest idempotency key.
const MAX_KEY: usize = 255;

/// A JSON object as the body.
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Json::<Object<T>>::from_request(request, state).await {
            Ok(Json(Object(body))) => Ok(Self(body)),
            Err(rejection) => Err(refused(&rejection)),
        }
    }
}

fn refused(rejection: &JsonRejection) -> Problem {
    let words = rejection.body_text();
    match rejection {
        JsonRejection::JsonDataError(_) => Problem::invalid(words),
        JsonRejection::JsonSyntaxError(_) => Problem::bad_request(words),
        JsonRejection::MissingJsonContentType(_) => Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "Unsupported media type",
            "send JSON, with Content-Type: application/json",
        ),
        other if other.status() == StatusCode::PAYLOAD_TOO_LARGE => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "Payload too large",
            "the body is too long",
        ),
        _ => Problem::bad_request("the body could not be read"),
    }
}

/// The id in the path.
pub struct PathId(pub Id);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = text.map_err(|_| Problem::bad_request("the path is not valid UTF-8"))?;
        let id = Id::new(text).map_err(|error| Problem::bad_request(error.to_string()))?;
        Ok(Self(id))
    }
}

/// The parameters after the `?`.
pub(super) struct QueryParameters<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let asked = Query::<T>::from_request_parts(parts, state).await;
        let Query(asked) = asked.map_err(|error| Problem::bad_request(error.body_text()))?;
        Ok(Self(asked))
    }
}

/// Returns the idempotency key of a request, if one was given.
pub(super) fn idempotency_key(
    headers: &HeaderMap,
    body: &impl Serialize,
) -> Result<Option<Key>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let key = value.to_str().unwrap_or_default();
    let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
    if key.is_empty() || key.len() > MAX_KEY || !is_plain || values.next().is_some() {
        return Err(Problem::bad_request(
            "send one Idempotency-Key of 1 to 255 visible ASCII characters",
        ));
    }
    let body = serde_json::to_vec(body).map_err(|_| Problem::internal())?;
    let digest = Sha256::digest(&body);
    Ok(Some(Key {
        key: key.to_owned(),
        fingerprint: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
    }))
}
