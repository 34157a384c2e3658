//! Errors as RFC 9457 problem documents. They never contain a query, a secret or a stack trace.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::checkout::{NotReviewed, Refusal};
use crate::id::Id;
use crate::storage::StorageError;

/// A problem document (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// The kind of problem for programs, `urn:fencepost:…`.
    #[serde(rename = "type", serialize_with = "as_urn")]
    #[schema(value_type = String, example = "urn:fencepost:product-unavailable")]
    kind: &'static str,
    /// The kind of problem for people.
    #[schema(example = "Product unavailable")]
    title: &'static str,
    /// The HTTP status of the answer.
    #[schema(example = 409, minimum = 400, maximum = 599)]
    status: u16,
    /// What happened in this case.
    detail: String,
    /// Why a product was unavailable: `out_of_stock` or `contended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The products that caused the problem.
    #[serde(skip_serializing_if = "<[Id]>::is_empty")]
    #[schema(value_type = Vec<Id>)]
    products: Box<[Id]>,
    #[serde(skip)]
    retry_after: Option<Duration>,
    /// What the log says about it when it is answered. It is never sent.
    #[serde(skip)]
    cause: Option<Box<StorageError>>,
}

fn as_urn<S: Serializer>(kind: &&'static str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("urn:fencepost:{kind}"))
}

impl Problem {
    /// Creates a problem of this kind.
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
            products: Box::default(),
            retry_after: None,
            cause: None,
        }
    }

    /// Tells the log, and nobody else, what caused it.
    #[must_use]
    fn caused_by(mut self, error: StorageError) -> Self {
        self.cause = Some(Box::new(error));
        self
    }

    /// Tells the client to retry after this time.
    #[must_use]
    pub fn retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    fn about(mut self, reason: Option<&'static str>, products: Vec<Id>) -> Self {
        self.reason = reason;
        self.products = products.into();
        self
    }

    /// Creates the problem of an invalid body: 422.
    pub fn invalid(detail: impl Into<String>) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self::new(status, "invalid-request", "Invalid request", detail)
    }

    /// Creates the problem of an invalid path, query or header: 400.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad-request",
            "Bad request",
            detail,
        )
    }

    /// Creates the problem of something that does not exist: 404.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    /// Creates the problem of a request that conflicts with the current state: 409.
    pub fn conflict(kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, kind, title, detail)
    }

    /// Creates the problem of a service that cannot answer now: 503.
    pub fn unavailable(kind: &'static str, detail: impl Into<String>) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, kind, "Service unavailable", detail)
    }

    /// Creates the problem of a database file that was removed or replaced while the service has it open.
    pub(super) fn database_gone() -> Self {
        Self::unavailable(
            "database-gone",
            "the database file was removed or replaced. Nothing was changed",
        )
    }

    /// Creates the problem of a request that was not answered in time, and whose effect is unknown: 504.
    pub fn too_late() -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "deadline-exceeded",
            "Deadline exceeded",
            "not answered in time: it may have taken effect. Repeat the request; for an order, use the same Idempotency-Key",
        )
        .retry_after(Duration::from_secs(1))
    }

    /// Creates the problem of a change that the database did not confirm. `repeat` says how to find out whether it took effect.
    pub(super) fn of_change(error: StorageError, repeat: &str) -> Self {
        let detail = format!("the database failed: the change may have taken effect. {repeat}");
        Self::of_storage(error, detail)
    }

    fn of_storage(error: StorageError, if_unavailable: impl Into<String>) -> Self {
        let problem = match &error {
            StorageError::Unavailable(_) => Self::unavailable("database-down", if_unavailable)
                .retry_after(Duration::from_secs(1)),
            StorageError::DatabaseGone => Self::database_gone(),
            StorageError::Broken(_) => Self::internal(),
        };
        problem.caused_by(error)
    }

    /// Creates the problem of an internal error: 500.
    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Internal error",
            "the log has details under the request's id",
        )
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let reason = refusal.as_str();
        let products = refusal.products().to_vec();
        match refusal {
            Refusal::KeyReused => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency-key-reused",
                "Idempotency-Key reused",
                "a different order was made with this key",
            ),
            Refusal::Unknown(_) => Self::not_found("no such product").about(None, products),
            Refusal::OtherShop(_) => {
                Self::conflict("other-shop", "Other shop", "another shop sells this")
                    .about(None, products)
            }
            Refusal::OutOfStock(_) => {
                product_unavailable("too little is left").about(Some(reason), products)
            }
            Refusal::Contended(_, time) => product_unavailable("others are buying it right now")
                .about(Some(reason), products)
                .retry_after(time),
            Refusal::StoreDown(time) => Self::unavailable(
                "lock-store-down",
                "no lock can be taken now: nothing was reserved",
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
                "the database failed: the order may have been made. Repeat the request with the same Idempotency-Key",
            )
            .retry_after(Duration::from_secs(1)),
        }
    }
}

impl From<NotReviewed> for Problem {
    fn from(reason: NotReviewed) -> Self {
        match reason {
            NotReviewed::Refused(refusal) => refusal.into(),
            NotReviewed::Storage(error) => error.into(),
        }
    }
}

fn product_unavailable(detail: &str) -> Problem {
    Problem::conflict("product-unavailable", "Product unavailable", detail)
}

/// The problem of a request that changes nothing. One that changes something is `Problem::of_change`.
impl From<StorageError> for Problem {
    fn from(error: StorageError) -> Self {
        Self::of_storage(error, "the database is unavailable")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if let Some(error) = &self.cause {
            tracing::error!(%error, "the database failed");
        }
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after;
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(time) = retry_after {
            // The header has whole seconds; round up, since an early retry would fail again.
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
