//! The OpenAPI document of the service.

use axum::Json;
use axum::extract::State;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi as Document, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use super::access::REVIEW_PATH;
use super::problem::Problem;
use super::{App, health, locks, orders, products, watch};
use crate::events::Event;

const TOKEN: &str = "admin_token";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Fencepost checkout",
        description = "A checkout that never oversells. Errors are RFC 9457 problem documents."
    ),
    paths(
        products::add,
        products::list,
        products::show,
        products::invariant,
        orders::review,
        orders::order,
        orders::show,
        orders::confirm,
        orders::cancel,
        locks::list,
        locks::figures,
        watch::events,
        health::alive,
        health::ready,
        health::metrics,
        show
    ),
    components(schemas(Problem, Event))
)]
struct Api;

/// Returns this OpenAPI document
#[utoipa::path(get, path = "/openapi.json", tag = "service",
    responses((status = 200, description = "OpenAPI", body = serde_json::Value)))]
pub(super) async fn show(State(app): State<App>) -> Json<Document> {
    let mut document = Api::openapi();
    document.merge(app.0.extra.description.clone());
    CommonAnswers.modify(&mut document);
    Json(document)
}

/// The errors that every operation can return.
struct CommonAnswers;

const ALWAYS: [(&str, &str); 4] = [
    ("400", "The path, the query or a header is invalid"),
    ("500", "Internal error"),
    (
        "503",
        "Unavailable: overloaded, a store is down, or the service is being stopped",
    ),
    ("504", "Not answered in time"),
];
const CHANGING: [(&str, &str); 2] = [
    ("401", "Changes need the admin token"),
    ("403", "Pages of other sites may not change anything"),
];
const WITH_BODY: [(&str, &str); 3] = [
    ("413", "The body is too long"),
    ("415", "The body is not JSON"),
    ("422", "The body is invalid"),
];

impl Modify for CommonAnswers {
    fn modify(&self, document: &mut Document) {
        let components = document.components.get_or_insert_default();
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme(TOKEN, SecurityScheme::Http(bearer));
        for (path, item) in &mut document.paths.paths {
            let operations = [&mut item.get, &mut item.post];
            for operation in operations.into_iter().flatten() {
                add(operation, &ALWAYS);
                if operation.request_body.is_some() {
                    add(operation, &WITH_BODY);
                }
            }
            if let Some(post) = &mut item.post
                && path != REVIEW_PATH
            {
                add(post, &CHANGING);
                // With the token or, on this machine, without it.
                post.security = Some(vec![
                    SecurityRequirement::default(),
                    SecurityRequirement::new(TOKEN, Vec::<String>::new()),
                ]);
            }
        }
    }
}

fn add(operation: &mut Operation, answers: &[(&str, &str)]) {
    for (status, description) in answers {
        let schema = Ref::from_schema_name("Problem");
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let response = ResponseBuilder::new()
            .description(*description)
            .content("application/problem+json", content)
            .build();
        let responses = &mut operation.responses.responses;
        responses
            .entry((*status).to_owned())
            .or_insert_with(|| response.into());
    }
}
