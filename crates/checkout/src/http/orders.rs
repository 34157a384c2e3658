//! The endpoints for orders: review, order, show, confirm and cancel.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};

use super::App;
use super::input::{Body, PathId, idempotency_key};
use super::layers::{Deadline, RequestPermit};
use super::problem::Problem;
use crate::id::Id;
use crate::order::{Basket, Order, OrderRequest, OrderStatus, PricedBasket};
use crate::storage::{Ending, Settled};

/// What to do if it is unknown whether an order was confirmed or cancelled.
const REPEAT: &str = "Repeat the request: it changes nothing twice";
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

fn basket(request: OrderRequest) -> Result<Basket, Problem> {
    Basket::new(request).map_err(|error| Problem::invalid(error.to_string()))
}

/// Prices an order without making it
#[utoipa::path(post, path = "/v1/checkout/review", tag = "checkout", request_body = OrderRequest,
    responses((status = 200, description = "What it would cost", body = PricedBasket),
    (status = 404, description = "A product does not exist", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "A product is unavailable or belongs to another shop", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn review(
    State(app): State<App>,
    Body(request): Body<OrderRequest>,
) -> Result<Json<PricedBasket>, Problem> {
    Ok(Json(app.0.checkout.review(&basket(request)?).await?))
}

/// Reserves everything in the basket and makes the order, or does neither
#[utoipa::path(post, path = "/v1/checkout/order", tag = "checkout", request_body = OrderRequest,
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]+$",
        description = "The customer's key for this order: a repeated request with the same key and body returns the same order. Kept for a day by default, and at least until the order has ended")),
    responses((status = 201, description = "The order is made, and its units are reserved. Repeated requests with the same key get the same answer", body = Order,
        headers(("Location" = String, description = "The path of the order"),
            ("Idempotency-Replayed" = String, description = "`true` if the order was made by an earlier request"))),
    (status = 404, description = "A product does not exist", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "A product is unavailable or belongs to another shop", body = Problem, content_type = "application/problem+json"),
    (status = 422, description = "The body is invalid, or a different order was made with this Idempotency-Key", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn order(
    State(app): State<App>,
    Extension(Deadline(until)): Extension<Deadline>,
    Extension(permit): Extension<RequestPermit>,
    headers: HeaderMap,
    Body(request): Body<OrderRequest>,
) -> Result<Response, Problem> {
    let key = idempotency_key(&headers, &request)?;
    let basket = basket(request)?;
    let made = app.0.checkout.order(basket, key, until, permit).await?;
    let location = format!("/v1/orders/{}", made.order.order_id);
    let answer = (
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        Json(made.order),
    );
    Ok(if made.is_replay {
        ([(REPLAYED, "true")], answer).into_response()
    } else {
        answer.into_response()
    })
}

/// Shows an order
#[utoipa::path(get, path = "/v1/orders/{id}", tag = "checkout", params(("id" = Id, Path, description = "The order")),
    responses((status = 200, description = "The order", body = Order),
    (status = 404, description = "There is no order with this id", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show(
    State(app): State<App>,
    PathId(id): PathId,
) -> Result<Json<Order>, Problem> {
    let order = app.0.checkout.storage().order(&id).await?;
    Ok(Json(order.ok_or_else(no_such_order)?))
}

/// Confirms an order and sells its units. Repeating it has no further effect
#[utoipa::path(post, path = "/v1/orders/{id}/confirm", tag = "checkout", params(("id" = Id, Path, description = "The order")),
    responses((status = 200, description = "It is confirmed", body = Order),
    (status = 404, description = "There is no order with this id", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "The order was cancelled or has expired", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn confirm(
    State(app): State<App>,
    Extension(permit): Extension<RequestPermit>,
    PathId(id): PathId,
) -> Result<Json<Order>, Problem> {
    settle(&app, permit, id, Ending::Confirm, OrderStatus::Confirmed).await
}

/// Cancels an order and returns its units to stock. Repeating it has no further effect
#[utoipa::path(post, path = "/v1/orders/{id}/cancel", tag = "checkout", params(("id" = Id, Path, description = "The order")),
    responses((status = 200, description = "It is cancelled", body = Order),
    (status = 404, description = "There is no order with this id", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "The order was confirmed or has expired", body = Problem, content_type = "application/problem+json")))]
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
    let settled = app.0.checkout.settle(id, ending, permit).await;
    match settled.map_err(|error| Problem::of_change(error, REPEAT))? {
        Settled::Done(order) => Ok(Json(order)),
        Settled::Unchanged(order) if order.order_status == wanted => Ok(Json(order)),
        Settled::Unchanged(order) => Err(Problem::conflict(
            "order-ended",
            "Order has ended",
            format!("the order is {}", order.order_status.as_str()),
        )),
        // `Unread` and `StaleFence` concern the sweeper only; a customer's request never gets them.
        Settled::Unknown | Settled::Unread | Settled::StaleFence => Err(no_such_order()),
    }
}

fn no_such_order() -> Problem {
    Problem::not_found("no such order")
}
