//! The servers that an address names.

/// An address that names servers, as in `redis://user:password@host:6379/0#space`.
#[derive(Debug, PartialEq)]
pub(crate) struct ServerList<'a> {
    pub(crate) before: &'a str,
    pub(crate) servers: Vec<Server<'a>>,
    pub(crate) after: &'a str,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Server<'a> {
    /// The user and the password, up to and including the `@`; empty if there is none.
    pub(crate) user: &'a str,
    pub(crate) host: &'a str,
}

impl<'a> ServerList<'a> {
    /// Returns `None` if the endpoint names no server.
    pub(crate) fn read(endpoint: &'a str) -> Option<Self> {
        let start = endpoint.find("://")? + "://".len();
        let (before, rest) = endpoint.split_at(start);
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (servers, after) = rest.split_at(end);
        let server = |text: &'a str| {
            let (user, host) = text.split_at(text.rfind('@').map_or(0, |at| at + 1));
            Server { user, host }
        };
        Some(Self {
            before,
            servers: servers.split(',').map(server).collect(),
            after,
        })
    }

    /// Returns an address of its own for each server. All have the user of the first, unless they name another.
    pub(crate) fn each(&self) -> Vec<String> {
        let first = self.servers.first().map_or("", |server| server.user);
        let (before, after) = (self.before, self.after);
        let address = |server: &Server<'_>| {
            let user = if server.user.is_empty() {
                first
            } else {
                server.user
            };
            format!("{before}{user}{}{after}", server.host)
        };
        self.servers.iter().map(address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hosts_of_an_endpoint_are_replaced() {
        for (endpoint, servers, after) in [
            (
                "redis://127.0.0.1:7000#lab",
                vec![("", "127.0.0.1:7000")],
                "#lab",
            ),
            ("redis://u:p@cache/2#lab", vec![("u:p@", "cache")], "/2#lab"),
            (
                "redlock://a:1,u:p@b:2?restart_delay=3s#lab",
                vec![("", "a:1"), ("u:p@", "b:2")],
                "?restart_delay=3s#lab",
            ),
            (
                "zk://[::1]:2181/base#lab",
                vec![("", "[::1]:2181")],
                "/base#lab",
            ),
        ] {
            let servers = servers.into_iter();
            let servers = servers.map(|(user, host)| Server { user, host });
            let expected = ServerList {
                before: &endpoint[..endpoint.find("//").unwrap() + 2],
                servers: servers.collect(),
                after,
            };
            assert_eq!(ServerList::read(endpoint), Some(expected), "{endpoint}");
        }
        assert_eq!(ServerList::read("sqlite:/tmp/run.db"), None);
    }

    #[test]
    fn each_server_has_an_address_of_its_own_with_the_user_of_the_first() {
        let list = ServerList::read("etcd://u:p@a:1,b:2,c/prefix#lab").unwrap();
        assert_eq!(
            list.each(),
            [
                "etcd://u:p@a:1/prefix#lab",
                "etcd://u:p@b:2/prefix#lab",
                "etcd://u:p@c/prefix#lab"
            ]
        );
    }
}
