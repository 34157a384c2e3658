//! Errors as RFC 9457 problem documents: a kind that programs tell apart, and words for people. Never a query, a secret or a stack.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::checkout::Refusal;
use crate::id::Id;
use crate::storage::StorageError;

/// What to do about a file that is not where it was.
pub(super) const DATABASE_GONE: &str = "the database's file was removed or replaced under the running service; put the same file back. A restart loses a file that was removed, and needs the -wal and -shm files of a replaced one out of the way first";

/// A problem document (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// What kind of problem, `urn:fencepost:…`.
    #[serde(rename = "type", serialize_with = "as_urn")]
    #[schema(value_type = String, example = "urn:fencepost:product-unavailable")]
    kind: &'static str,
    /// The same for people.
    #[schema(example = "Product unavailable")]
    title: &'static str,
    /// The status of the answer.
    #[schema(example = 409, minimum = 400, maximum = 599)]
    status: u16,
    /// What it is this time.
    detail: String,
    /// Why a product was not to be had: `out_of_stock` or `contended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The products that are to blame.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    products: Vec<Id>,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

fn as_urn<S: Serializer>(kind: &&'static str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("urn:fencepost:{kind}"))
}

impl Problem {
    /// A problem of this kind.
    pub fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            title,
            status: status.as_u16(),
            detail: detail.into(),
            reason: None,
            products: Vec::new(),
            retry_after: None,
        }
    }

    /// Come back after this time.
    #[must_use]
    pub fn retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    fn about(mut self, reason: Option<&'static str>, products: Vec<Id>) -> Self {
        self.reason = reason;
        self.products = products;
        self
    }

    /// The input makes no sense.
    pub fn invalid(detail: impl Into<String>) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self::new(status, "invalid-request", "Invalid request", detail)
    }

    /// The path or the query makes no sense.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad-request",
            "Bad request",
            detail,
        )
    }

    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    /// It cannot be, as things are.
    pub fn conflict(kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, kind, title, detail)
    }

    /// Not now.
    pub fn unavailable(kind: &'static str, detail: impl Into<String>) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, kind, "Service unavailable", detail)
    }

    /// The service has a file open that nobody else will see again.
    pub(super) fn database_gone() -> Self {
        Self::unavailable(
            "database-gone",
            format!("{DATABASE_GONE}. Nothing was changed"),
        )
    }

    /// Too late to know.
    pub fn too_late() -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "deadline-exceeded",
            "Deadline exceeded",
            "not answered in time: it may have taken effect. Ask again, an order with the same Idempotency-Key",
        )
        .retry_after(Duration::from_secs(1))
    }

    /// Our own fault.
    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Internal error",
            "the log has more, under the request's id",
        )
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let reason = refusal.word();
        let products = refusal.products().to_vec();
        match refusal {
            Refusal::KeyReused => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency-key-reused",
                "Idempotency-Key reused",
                "something else was ordered under this key",
            ),
            Refusal::Unknown(_) => Self::not_found("no such product").about(None, products),
            Refusal::OtherShop(_) => {
                Self::conflict("other-shop", "Other shop", "another shop sells this")
                    .about(None, products)
            }
            Refusal::OutOfStock(_) => {
                unavailable("too little is left").about(Some(reason), products)
            }
            Refusal::Contended(_, time) => unavailable("others are buying it right now")
                .about(Some(reason), products)
                .retry_after(time),
            Refusal::StoreDown(time) => Self::unavailable(
                "lock-store-down",
                "no lock can be had now: nothing was reserved",
            )
            .retry_after(time),
            Refusal::Closing => Self::unavailable(
                "closing",
                "the service is being stopped: nothing was reserved",
            )
            .retry_after(Duration::from_secs(1)),
            Refusal::DatabaseGone => Self::database_gone(),
            Refusal::Database(_) => Self::unavailable(
                "database-down",
                "the database failed: ask again with the same Idempotency-Key",
            )
            .retry_after(Duration::from_secs(1)),
        }
    }
}

fn unavailable(detail: &str) -> Problem {
    Problem::conflict("product-unavailable", "Product unavailable", detail)
}

impl From<StorageError> for Problem {
    fn from(error: StorageError) -> Self {
        tracing::error!(%error, "the database failed");
        match error {
            StorageError::Unavailable(_) => {
                Self::unavailable("database-down", "the database does not serve now")
                    .retry_after(Duration::from_secs(1))
            }
            StorageError::Displaced => Self::database_gone(),
            StorageError::Broken(_) => Self::internal(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after;
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(time) = retry_after {
            // Whole seconds; to come back too early would be in vain.
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
