//! Decides who may change something: everybody on this machine, or clients with the token, but never the page of another site.

use std::fmt;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::problem::Problem;
use super::{App, HttpSettings};

/// The only POST route that changes nothing.
pub(super) const REVIEW_PATH: &str = "/v1/checkout/review";

/// The token that requests need in order to change anything.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(String);

impl AdminToken {
    /// Makes `text` the token.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Hides the token, so that no log and no error contains it.
impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

/// Lets a request pass if it changes nothing or is allowed to.
pub(super) async fn authorize(State(app): State<App>, request: Request, next: Next) -> Response {
    let changes = !matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    ) && request.uri().path() != REVIEW_PATH;
    if changes {
        let settings = &app.0.settings;
        let allowed = refuse_other_sites(request.headers(), settings.is_loopback)
            .and_then(|()| require_token(request.headers(), settings.admin_token.as_ref()));
        if let Err(problem) = allowed {
            return problem.into_response();
        }
    }
    next.run(request).await
}

/// Refuses requests from pages of other sites, which can reach this machine through a user's browser.
fn refuse_other_sites(headers: &HeaderMap, is_loopback: bool) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let forbidden = || {
        Problem::new(
            StatusCode::FORBIDDEN,
            "other-site",
            "Request from another site",
            "pages of other sites may not change anything",
        )
    };
    if is_loopback && !names_this_machine(host) {
        return Err(forbidden());
    }
    match text(header::ORIGIN) {
        Some(origin) if origin.split_once("://").map(|(_, site)| site) != Some(host) => {
            Err(forbidden())
        }
        _ => Ok(()),
    }
}

fn names_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_matches(['[', ']']);
    name == "localhost"
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Returns whether the request has the admin token; `false` if the service has none.
pub(super) fn has_admin_token(headers: &HeaderMap, settings: &HttpSettings) -> bool {
    settings.admin_token.is_some() && require_token(headers, settings.admin_token.as_ref()).is_ok()
}

fn require_token(headers: &HeaderMap, token: Option<&AdminToken>) -> Result<(), Problem> {
    let Some(token) = token else {
        return Ok(());
    };
    let shown = headers.get(header::AUTHORIZATION);
    let shown = shown.and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.split_once(' '));
    let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    // Compare digests, so that the time of the comparison reveals nothing about the token.
    let is_right =
        shown.is_some_and(|(_, shown)| Sha256::digest(shown.trim()) == Sha256::digest(&token.0));
    if is_right {
        Ok(())
    } else {
        Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "token-needed",
            "Token needed",
            "changes need the admin token: Authorization: Bearer TOKEN",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs.iter().cloned();
        pairs
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn another_sites_page_never_changes_anything() {
        let here = |host, origin: &str| {
            let mut all = headers(&[(header::HOST, host)]);
            if !origin.is_empty() {
                all.insert(header::ORIGIN, origin.parse().unwrap());
            }
            refuse_other_sites(&all, true).is_ok()
        };
        assert!(here("127.0.0.1:8080", ""));
        assert!(here("localhost:8080", "http://localhost:8080"));
        assert!(here("[::1]:8080", "http://[::1]:8080"));
        assert!(!here("127.0.0.1:8080", "https://evil.example"));
        assert!(!here("127.0.0.1:8080", "null"));
        assert!(
            !here("evil.example", "http://evil.example"),
            "a name that was made to lead here"
        );
    }

    #[test]
    fn nothing_but_the_token_opens() {
        let token = AdminToken::new("s3cret");
        let with = |value: &str| {
            let all = headers(&[(header::AUTHORIZATION, value)]);
            require_token(&all, Some(&token)).is_ok()
        };
        assert!(with("Bearer s3cret") && with("bearer s3cret"));
        for wrong in [
            "Bearer s3cre",
            "Bearer s3cret1",
            "Basic s3cret",
            "s3cret",
            "Bearer",
        ] {
            assert!(!with(wrong), "{wrong}");
        }
        assert!(require_token(&HeaderMap::new(), Some(&token)).is_err());
        assert!(require_token(&HeaderMap::new(), None).is_ok());
    }

    #[test]
    fn settings_that_are_printed_never_contain_the_token() {
        let settings = HttpSettings {
            admin_token: Some(AdminToken::new("s3cret")),
            ..HttpSettings::default()
        };
        let printed = format!("{settings:?}");
        assert!(printed.contains("AdminToken(…)"), "{printed}");
        assert!(!printed.contains("s3cret"), "{printed}");
    }
}
