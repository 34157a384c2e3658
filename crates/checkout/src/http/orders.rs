//! Review, order, confirm, cancel.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};

use super::input::{Body, PathId, key};
use super::layers::RequestPermit;
use super::problem::Problem;
use super::{App, Deadline};
use crate::id::Id;
use crate::order::{Basket, Checkout, Order, OrderRequest, OrderStatus};
use crate::storage::{Ending, Settled};

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

fn basket(request: OrderRequest) -> Result<Basket, Problem> {
    Basket::new(request).map_err(|error| Problem::invalid(error.to_string()))
}

/// Prices an order without making it
#[utoipa::path(post, path = "/v1/checkout/review", tag = "checkout", request_body = OrderRequest,
    responses((status = 200, description = "What it would cost", body = Checkout),
    (status = 404, description = "A product is not for sale", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "Product unavailable, or another shop's", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn review(
    State(app): State<App>,
    Body(request): Body<OrderRequest>,
) -> Result<Json<Checkout>, Problem> {
    Ok(Json(app.0.checkout.review(&basket(request)?).await?))
}

/// Reserves everything in the basket and makes the order, or does neither
#[utoipa::path(post, path = "/v1/checkout/order", tag = "checkout", request_body = OrderRequest,
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]+$",
        description = "The customer's name for this order: asked again with the same key and body, the same order comes back. Kept for a day unless the service is told otherwise, and until the order has ended")),
    responses((status = 201, description = "The order is made, and its units are reserved. The same again for the same key", body = Order,
        headers(("Location" = String, description = "Where it is"),
            ("Idempotency-Replayed" = String, description = "`true` when it was made before"))),
    (status = 404, description = "A product is not for sale", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "Product unavailable, or another shop's", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn order(
    State(app): State<App>,
    Extension(Deadline(until)): Extension<Deadline>,
    Extension(permit): Extension<RequestPermit>,
    headers: HeaderMap,
    Body(request): Body<OrderRequest>,
) -> Result<Response, Problem> {
    let key = key(&headers, &request)?;
    let basket = basket(request)?;
    let made = app.0.checkout.order(basket, key, until, permit).await?;
    let location = format!("/v1/orders/{}", made.order.order_id);
    let answer = (
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        Json(made.order),
    );
    Ok(match made.is_replay {
        true => ([(REPLAYED, "true")], answer).into_response(),
        false => answer.into_response(),
    })
}

/// Shows an order
#[utoipa::path(get, path = "/v1/orders/{id}", tag = "checkout", params(("id" = Id, Path, description = "The order")),
    responses((status = 200, description = "The order", body = Order),
    (status = 404, description = "There is none of this id", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show(
    State(app): State<App>,
    PathId(id): PathId,
) -> Result<Json<Order>, Problem> {
    let order = app.0.checkout.storage().order(&id).await?;
    Ok(Json(order.ok_or_else(no_such_order)?))
}

/// Sells what the order has reserved. Twice is once
#[utoipa::path(post, path = "/v1/orders/{id}/confirm", tag = "checkout", params(("id" = Id, Path, description = "The order")),
    responses((status = 200, description = "It is confirmed", body = Order),
    (status = 404, description = "There is none of this id", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "It was cancelled, or nobody confirmed it in time", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn confirm(
    State(app): State<App>,
    Extension(permit): Extension<RequestPermit>,
    PathId(id): PathId,
) -> Result<Json<Order>, Problem> {
    settle(&app, permit, id, Ending::Confirm, OrderStatus::Confirmed).await
}

/// Gives back what the order has reserved. Twice is once
#[utoipa::path(post, path = "/v1/orders/{id}/cancel", tag = "checkout", params(("id" = Id, Path, description = "The order")),
    responses((status = 200, description = "It is cancelled", body = Order),
    (status = 404, description = "There is none of this id", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "It was confirmed, or nobody confirmed it in time", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn cancel(
    State(app): State<App>,
    Extension(permit): Extension<RequestPermit>,
    PathId(id): PathId,
) -> Result<Json<Order>, Problem> {
    settle(&app, permit, id, Ending::Cancel, OrderStatus::Cancelled).await
}

async fn settle(
    app: &App,
    permit: RequestPermit,
    id: Id,
    ending: Ending,
    wanted: OrderStatus,
) -> Result<Json<Order>, Problem> {
    match app.0.checkout.settle(id, ending, permit).await? {
        Settled::Done(order) => Ok(Json(order)),
        Settled::Before(order) if order.order_status == wanted => Ok(Json(order)),
        Settled::Before(order) => Err(Problem::conflict(
            "order-ended",
            "Order has ended",
            format!("the order is {}", order.order_status.word()),
        )),
        Settled::Unknown | Settled::Unread | Settled::LateFence => Err(no_such_order()),
    }
}

fn no_such_order() -> Problem {
    Problem::not_found("no such order")
}
