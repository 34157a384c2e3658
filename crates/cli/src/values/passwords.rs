//! Addresses without their passwords.

/// The same address, fit to be shown.
pub(crate) fn without_password(address: &str) -> String {
    let servers = address
        .strip_prefix("redlock://")
        .map(|servers| servers.split(','));
    // Each of these has a user of its own. What is neither host nor port may be the rest of a password with a comma.
    if let Some(servers) = servers.filter(|servers| servers.clone().all(has_user_or_is_host)) {
        let one = |server| without_password_of_one(&format!("redlock://{server}"));
        let servers: Vec<String> = servers.map(one).collect();
        return servers.join(",").replace(",redlock://", ",");
    }
    without_password_of_one(address)
}

fn has_user_or_is_host(server: &str) -> bool {
    let host = server.split(['/', '?']).next().unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    server.contains('@') || host.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit())
}

fn without_password_of_one(address: &str) -> String {
    let (scheme, rest) = match address.find("://") {
        Some(at) => address.split_at(at + 3),
        None => ("", address),
    };
    let is_path = scheme.is_empty() && rest.contains('/');
    let (person, place) = match rest.rsplit_once('@').filter(|_| !is_path) {
        Some((person, place)) => match person.split_once(':') {
            Some((user, _)) => (format!("{user}:***@"), place),
            None if scheme.is_empty() || scheme.starts_with("postgres") => {
                (format!("{person}@"), place)
            }
            None => (format!("{person}:***@"), place),
        },
        None => (String::new(), rest),
    };
    format!("{scheme}{person}{}", without_password_parameter(place))
}

/// Sockets have it among their parameters: `unix:/PATH?pass=…`.
fn without_password_parameter(place: &str) -> String {
    let Some((path, parameters)) = place.split_once('?') else {
        return place.to_owned();
    };
    let shown = parameters
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if name.starts_with("pass") => format!("{name}=***"),
            _ => parameter.to_owned(),
        });
    format!("{path}?{}", shown.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(
            without_password("redis://shop:hunter2@cache:6379"),
            "redis://shop:***@cache:6379"
        );
        assert_eq!(
            without_password("redis://:p@ss@cache"),
            "redis://:***@cache"
        );
        assert_eq!(without_password("redis://cache"), "redis://cache");
        assert_eq!(
            without_password(
                "redlock://u:hunter2@a:1,b:2,[::1]:3,:hunter3@[::2]/5?restart_delay=3s"
            ),
            "redlock://u:***@a:1,b:2,[::1]:3,:***@[::2]/5?restart_delay=3s"
        );
        let comma = without_password("redlock://a,u:hunter,2@b,c");
        assert!(!comma.contains("hunter"), "{comma}");
        assert_eq!(without_password("shop:hunter2@cache"), "shop:***@cache");
        assert_eq!(
            without_password("--store=shop:hunter2@cache"),
            "--store=shop:***@cache"
        );
        assert_eq!(
            without_password("unix:/run/redis.sock?db=1&pass=hunter2&user=shop"),
            "unix:/run/redis.sock?db=1&pass=***&user=shop"
        );
        for unchanged in ["unix:/run/a@b.sock", "--name=a@b", "a:b"] {
            assert_eq!(without_password(unchanged), unchanged);
        }
    }
}
