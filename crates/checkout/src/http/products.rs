//! The endpoints for products, and for the check that their units add up.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::input::{Body, PathId, QueryParameters};
use super::problem::Problem;
use crate::id::Id;
use crate::product::{Balance, NewProduct, Product};
use crate::storage::StorageError;

const MAX_PAGE: i64 = 500;
/// What to do if it is unknown whether a product was added: the two cases of its id.
const REPEAT_WITH_ID: &str = "Repeat the request: product-exists means that it did";
const LOOK_WITHOUT_ID: &str = "Look for the product in GET /v1/products before you repeat the request, which named no product_id";

/// Which products to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ProductQuery {
    /// Only products whose id sorts after this one.
    after: Option<Id>,
    /// The maximum number of products.
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<i64>,
}

/// A page of products.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProductList {
    /// The products, sorted by id.
    products: Vec<Product>,
    /// Pass this as `after` to get the next page; `null` on the last page.
    next_after: Option<Id>,
}

impl ProductList {
    /// Creates a page of at most `limit` products. Any product beyond them is on the next page.
    fn new(mut products: Vec<Product>, limit: i64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = products.len() > limit;
        products.truncate(limit);
        let last = products.last().filter(|_| has_more);
        Self {
            next_after: last.map(|product| product.product_id.clone()),
            products,
        }
    }
}

/// Puts a product up for sale
#[utoipa::path(post, path = "/v1/products", tag = "products", request_body = NewProduct,
    responses((status = 201, description = "It is for sale", body = Product,
        headers(("Location" = String, description = "The path of the product"))),
    (status = 409, description = "A product with this id exists already", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn add(
    State(app): State<App>,
    Body(new): Body<NewProduct>,
) -> Result<Response, Problem> {
    let now = jiff::Timestamp::now().as_millisecond();
    let repeat = match new.product_id {
        Some(_) => REPEAT_WITH_ID,
        None => LOOK_WITHOUT_ID,
    };
    let id = match new.product_id.clone() {
        Some(id) => id,
        None => Id::random(now).map_err(StorageError::from)?,
    };
    let storage = app.0.checkout.storage();
    let added = storage.add_product(new, id).await;
    let added = added.map_err(|error| Problem::of_change(error, repeat))?;
    let Some(product) = added else {
        return Err(Problem::conflict(
            "product-exists",
            "Product exists",
            "a product with this id exists already",
        ));
    };
    let location = format!("/v1/products/{}", product.product_id);
    Ok((
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        Json(product),
    )
        .into_response())
}

/// Lists products
#[utoipa::path(get, path = "/v1/products", tag = "products", params(ProductQuery),
    responses((status = 200, description = "Some products", body = ProductList)))]
pub(super) async fn list(
    State(app): State<App>,
    QueryParameters(query): QueryParameters<ProductQuery>,
) -> Result<Json<ProductList>, Problem> {
    let limit = query.limit.unwrap_or(100);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Problem::bad_request(
            "limit must be a whole number from 1 to 500",
        ));
    }
    // One more than asked for tells whether this is the last page.
    let storage = app.0.checkout.storage();
    let products = storage.products(query.after, limit + 1).await?;
    Ok(Json(ProductList::new(products, limit)))
}

/// Shows a product
#[utoipa::path(get, path = "/v1/products/{id}", tag = "products", params(("id" = Id, Path, description = "The product")),
    responses((status = 200, description = "The product", body = Product),
    (status = 404, description = "There is no product with this id", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show(
    State(app): State<App>,
    PathId(id): PathId,
) -> Result<Json<Product>, Problem> {
    let product = app.0.checkout.storage().product(&id).await?;
    let product = product.ok_or_else(|| Problem::not_found("no such product"))?;
    Ok(Json(product))
}

/// The result of counting every unit.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Invariant {
    /// `stock + reserved + sold = put_in` for every product, by its own row and by its orders.
    holds: bool,
    /// How many products were counted.
    products: usize,
    /// The products whose units do not add up.
    violations: Vec<Balance>,
}

/// Checks that stock + reserved + sold = put in, for every product
#[utoipa::path(get, path = "/v1/invariant", tag = "products",
    responses((status = 200, description = "All units, counted at one moment; `holds` says whether they add up", body = Invariant)))]
pub(super) async fn invariant(State(app): State<App>) -> Result<Json<Invariant>, Problem> {
    let balances = app.0.checkout.storage().balances().await?;
    let products = balances.len();
    let violations = balances.into_iter().filter(|balance| !balance.holds());
    let violations: Vec<Balance> = violations.collect();
    Ok(Json(Invariant {
        holds: violations.is_empty(),
        products,
        violations,
    }))
}
