use super::super::finding::{Finding, Severity};
use super::readings::{Info, Readings, Setting};
use super::server::Reply;
use super::*;

/// Returns the readings of a server that says this of itself, and denies nothing.
fn saying(info: &str) -> Readings {
    Readings {
        info: Some(Info::parse(info)),
        user: "shop".into(),
        save: Setting::Is(String::new()),
        fsync: None,
        servers: Some(1),
        script: Reply::Said(42),
        denied: Some(Vec::new()),
        subscribe: Reply::Said(()),
        may_publish: true,
        kill: Reply::Said(()),
        resp3: Ok(()),
        tracking: Some(Reply::Said(())),
        samples: None,
    }
}

fn found(readings: &Readings, topic: &str) -> Finding {
    let mut findings = apply(CHECKS, readings).into_iter();
    findings.find(|finding| finding.topic == topic).unwrap()
}

#[test]
fn a_server_is_described() {
    let redis = saying("redis_version:7.0.15\r\nrole:master\r\nuptime_in_seconds:1036800\r\n");
    assert_eq!(
        describe(&redis),
        "Redis 7.0.15, one primary, up 12 d, as user shop"
    );
    let valkey = saying("server_name:valkey\nredis_version:7.2.4\nvalkey_version:8.1.0\n");
    assert_eq!(describe(&valkey), "Valkey 8.1.0, as user shop");
    assert_eq!(
        found(&valkey, "version"),
        Finding::fine("version", "version").figure("version", "8.1.0")
    );
}

#[test]
fn an_old_version_is_a_danger() {
    for (version, expected) in [
        ("5.0.7", Severity::Danger),
        ("6.0.16", Severity::Danger),
        ("6.2.0", Severity::Fine),
        ("10.1", Severity::Fine),
        ("next", Severity::Unknown),
    ] {
        let readings = saying(&format!("redis_version:{version}"));
        assert_eq!(found(&readings, "version").severity, expected, "{version}");
    }
}

#[test]
fn memory_is_told_once() {
    let of = |policy: &str, used: i64, limit: i64| {
        let readings = saying(&format!(
            "maxmemory_policy:{policy}\nused_memory:{used}\nmaxmemory:{limit}\n"
        ));
        let findings = apply(CHECKS, &readings).into_iter();
        let relevant = findings.filter(|found| matches!(found.topic, "eviction" | "memory"));
        let relevant: Vec<_> = relevant
            .map(|found| (found.topic, found.severity))
            .collect();
        assert_eq!(relevant.len(), 1, "{policy} {used} {limit}: {relevant:?}");
        relevant[0]
    };
    assert_eq!(of("noeviction", 9, 0), ("eviction", Severity::Fine));
    assert_eq!(of("noeviction", 9, 100), ("eviction", Severity::Fine));
    assert_eq!(of("noeviction", 95, 100), ("memory", Severity::Caution));
    assert_eq!(of("allkeys-lru", 9, 0), ("eviction", Severity::Caution));
    assert_eq!(of("volatile-ttl", 95, 100), ("eviction", Severity::Danger));
}
