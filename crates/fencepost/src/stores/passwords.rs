//! [`without_password`]: hides the passwords in a text that may be the address of a store.

use super::kinds::{KINDS, StoreKind};

/// Returns the text with `***` in place of every password, even if it is not a valid address.
#[cfg_attr(
    not(feature = "unstable-hooks"),
    allow(unreachable_pub, reason = "our own programs use it, too")
)]
pub fn without_password(address: &str) -> String {
    let (scheme, rest) = match address.find("://") {
        Some(at) => address.split_at(at + 3),
        None => ("", address),
    };
    let has_scheme = |kind: &&StoreKind| kind.schemes.iter().any(|all| all.prefix == scheme);
    let kind = KINDS.iter().copied().find(has_scheme);
    let has_user_alone = scheme.is_empty() || kind.is_some_and(|kind| kind.has_user_alone);
    // A part that is neither host nor port may belong to a password that contains a comma.
    let servers: Vec<&str> = match kind {
        Some(kind) if kind.has_user_per_server && rest.split(',').all(has_user_or_is_host) => {
            rest.split(',').collect()
        }
        _ => vec![rest],
    };
    let is_path = scheme.is_empty() && rest.contains('/');
    let shown = servers.into_iter().map(|server| {
        if is_path {
            without_password_parameter(server)
        } else {
            without_user_password(server, has_user_alone)
        }
    });
    format!("{scheme}{}", shown.collect::<Vec<_>>().join(","))
}

fn has_user_or_is_host(server: &str) -> bool {
    let host = server.split(['/', '?']).next().unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    server.contains('@') || host.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Hides the password of the user in front of a server, and the one in the parameters behind it.
fn without_user_password(server: &str, has_user_alone: bool) -> String {
    // A question mark may also be part of a password.
    let is_query = |query: &str| query.split('&').all(|parameter| parameter.contains('='));
    let (place, query) = match server.find('?') {
        Some(at) if has_user_or_is_host(&server[..at]) && is_query(&server[at + 1..]) => {
            server.split_at(at)
        }
        _ => (server, ""),
    };
    let Some((person, host)) = place.rsplit_once('@') else {
        return without_password_parameter(server);
    };
    let person = match person.split_once(':') {
        Some((user, _)) => format!("{user}:***"),
        // The sign is part of a parameter.
        None if person.contains('?') => return without_password_parameter(server),
        None if has_user_alone => person.to_owned(),
        // It may be a password.
        None => "***".into(),
    };
    let host = without_password_parameter(&format!("{host}{query}"));
    format!("{person}@{host}")
}

/// Hides the password in the parameters of an address, and whatever may be a part of it.
fn without_password_parameter(place: &str) -> String {
    let Some((path, parameters)) = place.split_once('?') else {
        return place.to_owned();
    };
    let shown = parameters
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if name.starts_with("pass") => format!("{name}=***"),
            // The rest of a password with an unescaped `&`.
            None if parameter.contains('@') => "***".into(),
            _ => parameter.to_owned(),
        });
    format!("{path}?{}", shown.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (address, shown) in [
            (
                "postgres://db/shop?password=hunter@2",
                "postgres://db/shop?password=***",
            ),
            ("redis://cache?pass=hunter@2", "redis://cache?pass=***"),
            (
                "postgres://shop@db:5432/shop?password=p@hunter2",
                "postgres://shop@db:5432/shop?password=***",
            ),
            (
                "postgres://shop:x@db/s?sslmode=require&password=p@hunter2",
                "postgres://shop:***@db/s?sslmode=require&password=***",
            ),
            (
                "postgres://db:5432/shop?password=p@hunter2",
                "postgres://db:5432/shop?password=***",
            ),
            (
                "postgres://db/shop?password=p&w@hunter2",
                "postgres://db/shop?password=***&***",
            ),
            ("redis://u:p?hunter@2@cache", "redis://u:***@cache"),
            ("redis://hunter2@cache", "redis://***@cache"),
            ("postgres://shop@db/shop", "postgres://shop@db/shop"),
        ] {
            assert_eq!(without_password(address), shown);
        }
        let comma = without_password("redlock://a,u:hunter,2@b,c");
        assert!(!comma.contains("hunter"), "{comma}");
        assert_eq!(without_password("shop:hunter2@cache"), "shop:***@cache");
        assert_eq!(
            without_password("--store=shop:hunter2@cache"),
            "--store=shop:***@cache"
        );
        for unchanged in ["unix:/run/a@b.sock", "--name=a@b", "a:b"] {
            assert_eq!(without_password(unchanged), unchanged);
        }
    }
}
