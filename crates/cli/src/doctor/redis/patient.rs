//! Name, version and role of a Redis or Valkey server.

use super::readings::Readings;

/// Describes the server for the title of the report.
pub(super) fn patient(read: &Readings) -> String {
    let mut words = match (name(read), version(read)) {
        (name, Some(version)) => format!("{name} {version}"),
        (name, None) => name.to_owned(),
    };
    let role = match read.get("role") {
        _ if is_cluster(read) => ", a node of a cluster",
        Some("master") => ", one primary",
        Some("slave") => ", a replica",
        _ => "",
    };
    words.push_str(role);
    if let Some(seconds) = read.number("uptime_in_seconds") {
        words.push_str(&format!(", up {}", super::super::uptime(seconds)));
    }
    words + ", as user " + &read.user
}

pub(super) fn name(read: &Readings) -> &'static str {
    match read.get("server_name") {
        Some("valkey") => "Valkey",
        _ => "Redis",
    }
}

pub(super) fn version(read: &Readings) -> Option<&str> {
    let own = read.get("valkey_version");
    own.or_else(|| read.get("redis_version"))
}

pub(super) fn is_cluster(read: &Readings) -> bool {
    read.is("cluster_enabled", "1") || read.is("redis_mode", "cluster")
}

/// Compares the Redis version that the server is compatible with; forks report that too. `None` if the version is missing or not a number.
pub(super) fn is_older_than(read: &Readings, oldest: [u32; 2]) -> Option<bool> {
    let mut parts = read.get("redis_version")?.split('.');
    let mut number = || parts.next()?.parse::<u32>().ok();
    let version = [number()?, number()?];
    Some(version < oldest)
}
