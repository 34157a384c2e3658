//! Tests of `doctor` on real servers, healthy and with one problem each.

use std::time::Duration;

use fencepost_rig::resp::{Connection, Value};
use fencepost_rig::{Redis, ServerError};
use serde_json::Value as Json;

use crate::schema::{assert_valid, schema};
use crate::{Ran, fencepost, finish, run};

#[cfg(feature = "etcd")]
mod etcd;
mod files;
mod impostors;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redlock")]
mod redlock;
mod rights;
#[cfg(feature = "zookeeper")]
mod zookeeper;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A private server and a separate connection to it. If none is installed, the test says so and is skipped.
struct Patient {
    server: Redis,
    connection: Connection,
}

impl Patient {
    fn admit() -> Option<Self> {
        Self::of(Redis::start())
    }

    fn of(started: Result<Redis, ServerError>) -> Option<Self> {
        let server = match started {
            Ok(server) => server,
            Err(ServerError::NotInstalled { .. }) => {
                println!("skipped: no redis-server ({})", Redis::INSTALL);
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let connection = Connection::open(server.address(), ANSWER_TIMEOUT).unwrap();
        Some(Self { server, connection })
    }

    fn tell(&mut self, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        let said = self.connection.ask(&words).unwrap();
        assert!(!matches!(said, Value::Error(_)), "{words:?}: {said:?}");
    }

    fn info(&mut self, name: &str) -> String {
        let Value::Text(info) = self.connection.ask(&["INFO"]).unwrap() else {
            panic!("no INFO")
        };
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(key, _)| *key == name);
        field.map_or(String::new(), |(_, value)| value.trim().to_owned())
    }

    fn seen(&self) -> Seen {
        Seen::at(&self.server.url())
    }

    /// Runs the doctor as a user with these rights only.
    fn seen_by(&mut self, rights: &str) -> Seen {
        self.tell("ACL SETUSER shop reset");
        self.tell(&format!("ACL SETUSER shop on >hunter2 {rights}"));
        Seen::at(
            &self
                .server
                .url()
                .replace("redis://", "redis://shop:hunter2@"),
        )
    }
}

/// The doctor's output for people and for programs.
struct Seen {
    ran: Ran,
    report: Json,
}

impl Seen {
    fn at(store: &str) -> Self {
        // The response time of a server beside other tests is not what is tested.
        let store = &format!("{store} --slow 1h");
        let json = run(&format!("doctor --json --store {store}"));
        assert_eq!(json.stderr, "", "{}", json.stdout);
        let report: Json = serde_json::from_str(&json.stdout).unwrap();
        assert_valid(&schema("doctor.json"), store, &report);
        assert_eq!(report["exit_code"], json.code);
        let ran = run(&format!("doctor --store {store}"));
        assert_eq!(ran.code, json.code, "{}", ran.stdout);
        for text in [&ran.stdout, &json.stdout] {
            assert!(!text.contains("hunter2"), "{text}");
        }
        // The length of a title depends on the name of the store.
        let mut lines = ran.stdout.lines().skip(1);
        assert!(lines.all(|line| line.chars().count() <= 100));
        Self { ran, report }
    }

    /// Returns everything that is neither fine nor unknown, such as `danger eviction`.
    fn troubles(&self) -> Vec<String> {
        self.all()
            .into_iter()
            .filter(|found| !found.starts_with("fine"))
            .collect()
    }

    fn all(&self) -> Vec<String> {
        let findings = self.report["findings"].as_array().unwrap();
        let word = |found: &Json, name: &str| found[name].as_str().unwrap().to_owned();
        let both = findings
            .iter()
            .map(|found| word(found, "severity") + " " + &word(found, "topic"));
        both.collect()
    }

    fn finding(&self, topic: &str) -> &Json {
        let mut findings = self.report["findings"].as_array().unwrap().iter();
        findings.find(|found| found["topic"] == topic).unwrap()
    }

    fn says(&self, words: &str) {
        let text: Vec<&str> = self.ran.stdout.split_whitespace().collect();
        assert!(text.join(" ").contains(words), "{}", self.ran.stdout);
    }
}

#[test]
fn a_server_with_nothing_the_matter_is_fine() {
    let Some(mut patient) = Patient::admit() else {
        return;
    };
    patient.tell("CONFIG SET appendonly yes");
    let seen = patient.seen();
    assert_eq!((seen.ran.code, seen.troubles()), (0, vec![]));
    seen.says("one primary, up ");
    seen.says("as user default");
    seen.says("version; no cluster; one server at this address; scripts; keys of locks; pub/sub; CLIENT KILL; CLIENT TRACKING");
    assert!(
        seen.ran
            .stdout
            .ends_with("\nall fine: nothing was found that endangers locks here.\n")
    );
    let quiet = run(&format!("doctor -q --store {}", patient.server.url()));
    assert!(!quiet.stdout.contains("fine  "), "{}", quiet.stdout);
    assert_eq!(
        patient.info("rdb_changes_since_last_save"),
        "0",
        "it only looks"
    );
}

#[test]
fn slow_sets_the_limit_for_the_round_trip() {
    let Some(mut patient) = Patient::admit() else {
        return;
    };
    patient.tell("CONFIG SET appendonly yes");
    let store = patient.server.url();
    let ran = run(&format!("doctor -q --slow 0s --store {store}"));
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(
        ran.stdout.contains("! caution   round trip    "),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .ends_with("\n1 caution: locks work here, but not as well as they could.\n"),
        "{}",
        ran.stdout
    );
    let ran = run(&format!("doctor --slow soon --store {store}"));
    assert_eq!(ran.code, 64, "{}", ran.stderr);
}

#[test]
fn without_a_file_a_restart_forgets() {
    let Some(mut patient) = Patient::admit() else {
        return;
    };
    let seen = patient.seen();
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (1, vec!["caution persistence".to_owned()])
    );
    seen.says("append-only file off, no snapshots: a restart forgets every lock that is held");
    assert!(
        seen.ran
            .stdout
            .ends_with("\n1 caution: a restart or a failover can forget locks that are held.\n")
    );
    patient
        .connection
        .ask(&["CONFIG", "SET", "save", "60 1000"])
        .unwrap();
    patient
        .seen()
        .says("a restart forgets locks taken since the last snapshot");
    patient.tell("CONFIG SET appendonly yes");
    patient.tell("CONFIG SET appendfsync no");
    let seen = patient.seen();
    assert_eq!(seen.troubles(), ["caution persistence"]);
    seen.says("appendfsync no: a power cut forgets");
    patient.tell("CONFIG SET appendfsync always");
    assert_eq!(patient.seen().ran.code, 0);
}

#[test]
fn a_server_that_evicts_is_a_danger_with_figures() {
    let Some(mut patient) = Patient::admit() else {
        return;
    };
    patient.tell("CONFIG SET appendonly yes");
    patient.tell("CONFIG SET maxmemory-policy allkeys-lru");
    let seen = patient.seen();
    assert_eq!(
        seen.troubles(),
        ["caution eviction"],
        "there is no limit yet"
    );
    patient.tell("CONFIG SET maxmemory 8mb");
    let megabyte = "x".repeat(1_000_000);
    for key in 0..12 {
        patient
            .connection
            .ask(&["SET", &key.to_string(), &megabyte])
            .unwrap();
    }
    let evicted: i64 = patient.info("evicted_keys").parse().unwrap();
    assert!(evicted > 0);
    let seen = patient.seen();
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (2, vec!["danger eviction".to_owned()])
    );
    seen.says(" of 8.0 MiB used, ");
    seen.says("noeviction would make writes fail at 8.0 MiB: raise maxmemory before you set it.");
    let figures = &seen.finding("eviction")["figures"];
    assert_eq!(figures["limit_bytes"], 8 * 1024 * 1024);
    assert_eq!(figures["evicted_keys"], evicted);
    assert!(
        seen.ran
            .stdout
            .ends_with("\n1 danger: a lock here can vanish while it is held.\n")
    );
    patient.tell("CONFIG SET maxmemory-policy volatile-ttl");
    patient
        .seen()
        .says("It deletes keys with a TTL only, and every lock has one.");
    patient.tell("CONFIG SET maxmemory-policy noeviction");
    patient.tell("CONFIG SET maxmemory 0");
    // Enough data that the server's own buffers, which vary, do not matter.
    let fill = "for i = 1, 30000 do redis.call('SET', i, string.rep('x', 1000)) end";
    patient.connection.ask(&["EVAL", fill, "0"]).unwrap();
    let used: u64 = patient.info("used_memory").parse().unwrap();
    patient.tell(&format!("CONFIG SET maxmemory {}", used + used / 50));
    let seen = patient.seen();
    assert_eq!(
        seen.troubles(),
        ["caution memory"],
        "nearly full, and nothing is evicted"
    );
    patient.tell("CONFIG SET maxmemory 800mb");
    assert_eq!(patient.seen().ran.code, 0);
}

#[test]
fn replicas_can_lose_a_lock_and_take_none() {
    let (Some(mut primary), Some(mut replica)) = (Patient::admit(), Patient::admit()) else {
        return;
    };
    primary.tell("CONFIG SET appendonly yes");
    let address = primary.server.address();
    replica.tell(&format!("REPLICAOF {} {}", address.ip(), address.port()));
    crate::interrupt::until("the replica is there", || {
        primary.info("connected_slaves") == "1"
    });
    let seen = primary.seen();
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (1, vec!["caution replica".to_owned()])
    );
    seen.says("1, asynchronous: a failover can give one lock to two clients");
    let seen = replica.seen();
    assert_eq!(seen.ran.code, 2);
    assert!(
        seen.troubles().contains(&"danger replica".to_owned()),
        "{:?}",
        seen.troubles()
    );
    seen.says(&format!("a replica of {address}"));
    assert!(seen.ran.stdout.ends_with(": no lock can be taken here.\n"));
}

#[test]
fn a_failed_snapshot_is_told() {
    let Some(mut patient) = Patient::admit() else {
        return;
    };
    patient.tell("CONFIG SET appendonly yes");
    let cwd = format!("/proc/{}/cwd", patient.server.pid());
    let in_the_way = std::fs::read_link(cwd).unwrap().join("dump.rdb");
    std::fs::create_dir(&in_the_way).unwrap();
    patient.tell("BGSAVE SCHEDULE");
    crate::interrupt::until("it failed", || {
        patient.info("rdb_last_bgsave_status") == "err"
    });
    let seen = patient.seen();
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (2, vec!["danger disk".to_owned()])
    );
    std::fs::remove_dir(&in_the_way).unwrap();
    patient.tell("BGSAVE SCHEDULE");
    crate::interrupt::until("it succeeds", || {
        patient.info("rdb_last_bgsave_status") == "ok"
    });
    assert_eq!(patient.seen().ran.code, 0);
}

#[test]
fn a_node_of_a_cluster_is_no_place_for_locks() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("redis-server");
    std::fs::write(
        &program,
        "#!/bin/sh\nexec redis-server \"$@\" --cluster-enabled yes\n",
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    if !Redis::is_installed() {
        println!("skipped: no redis-server ({})", Redis::INSTALL);
        return;
    }
    let patient = Patient::of(Redis::start_program(&program)).unwrap();
    let seen = patient.seen();
    assert_eq!(seen.troubles(), ["danger cluster", "caution persistence"]);
    seen.says("a node of a cluster, up ");
}
