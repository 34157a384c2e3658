//! Tests of `doctor` on the servers of a Redlock.

use super::{Patient, Seen};
use crate::run;

fn several(count: usize) -> Option<Vec<Patient>> {
    let mut patients = Vec::new();
    for _ in 0..count {
        let mut patient = Patient::admit()?;
        patient.tell("CONFIG SET appendfsync always");
        patient.tell("CONFIG SET appendonly yes");
        patients.push(patient);
    }
    Some(patients)
}

fn url(patients: &[Patient]) -> String {
    let hosts: Vec<String> = patients
        .iter()
        .map(|patient| patient.server.address().to_string())
        .collect();
    format!("redlock://{}", hosts.join(","))
}

#[test]
fn three_servers_with_nothing_the_matter_are_fine() {
    let Some(mut patients) = several(3) else {
        return;
    };
    let seen = Seen::at(&url(&patients));
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (0, vec![]),
        "{}",
        seen.ran.stdout
    );
    seen.says("3 of 3 servers answer");
    seen.says("3 servers, 1 may be lost; all answer; all are separate servers");
    seen.says("the slowest; clocks of the servers");
    patients[2].tell("CONFIG SET appendfsync everysec");
    let seen = Seen::at(&url(&patients));
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (1, vec!["caution restart".to_owned()])
    );
    seen.says("a power cut forgets votes");
    for patient in &mut patients[..2] {
        patient.tell("CONFIG SET appendonly no");
    }
    let seen = Seen::at(&url(&patients));
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (1, vec!["caution restart".to_owned()])
    );
    let forgetful: Vec<String> = patients[..2]
        .iter()
        .map(|patient| patient.server.address().to_string())
        .collect();
    seen.says(&format!(
        "{}: a restart forgets votes",
        forgetful.join(", ")
    ));
    let seen = Seen::at(&format!("{}?restart_delay=1ms", url(&patients)));
    assert_eq!(seen.ran.code, 1, "{}", seen.ran.stdout);
    seen.says("shorter than the default TTL of 10 s");
    let seen = Seen::at(&format!("{}?restart_delay=30s", url(&patients)));
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (0, vec![]),
        "{}",
        seen.ran.stdout
    );
    seen.says("a restarted server does not vote for 30.0 s");
    // A problem of one server is reported with the name of that server.
    patients[1].tell("CONFIG SET maxmemory 100mb");
    patients[1].tell("CONFIG SET maxmemory-policy allkeys-lru");
    let seen = Seen::at(&format!("{}?restart_delay=30s", url(&patients)));
    assert_eq!(seen.troubles(), ["danger eviction"]);
    seen.says(&format!(
        "{}: maxmemory-policy allkeys-lru",
        patients[1].server.address()
    ));
}

#[test]
fn the_same_server_twice_and_a_replica_of_another() {
    let Some(mut patients) = several(3) else {
        return;
    };
    let [first, second, _] = [0, 1, 2].map(|at| patients[at].server.address());
    let twice = format!("redlock://{first},localhost:{},{second}", first.port());
    let seen = Seen::at(&twice);
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (2, vec!["danger independence".to_owned()])
    );
    seen.says(&format!(
        "{first} and localhost:{} are the same server",
        first.port()
    ));
    patients[2].tell(&format!("REPLICAOF {} {}", first.ip(), first.port()));
    crate::interrupt::until("it follows", || patients[0].info("connected_slaves") == "1");
    let seen = Seen::at(&url(&patients));
    assert_eq!(seen.ran.code, 2);
    let troubles = seen.troubles();
    assert!(
        troubles.contains(&"danger replica".to_owned()),
        "{troubles:?}"
    );
    assert!(
        troubles.contains(&"caution replica".to_owned()),
        "{troubles:?}"
    );
    seen.says(&format!(
        "{}: this is a replica of {first}",
        patients[2].server.address()
    ));
    seen.says("Fencepost refuses an address with such a server.");
    let exec = format!("exec --name q --store {} -- true", url(&patients));
    let ran = run(&exec);
    assert_eq!(ran.code, 69, "{}", ran.stderr);
    assert!(ran.stderr.contains("is a replica"), "{}", ran.stderr);
}

#[test]
fn numbers_and_majorities() {
    let Some(mut patients) = several(4) else {
        return;
    };
    let seen = Seen::at(&url(&patients));
    assert_eq!(seen.troubles(), ["caution servers"]);
    seen.says("an even number, 4: 1 may be lost, as with 3");
    let seen = Seen::at(&url(&patients[..2]));
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (2, vec!["danger servers".to_owned()])
    );
    let three = url(&patients[..3]);
    patients[0].server.crash();
    let seen = Seen::at(&three);
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (1, vec!["caution majority".to_owned()]),
        "{}",
        seen.ran.stdout
    );
    seen.says("2 of 3 answer; no answer from ");
    seen.says("If another one is lost");
    patients[1].server.crash();
    let seen = Seen::at(&three);
    assert_eq!(
        (seen.ran.code, seen.troubles()),
        (2, vec!["danger majority".to_owned()])
    );
    assert!(seen.ran.stdout.ends_with(": no lock can be taken here.\n"));
    patients[2].server.crash();
    let ran = run(&format!("doctor --store {three}"));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("error: cannot reach the store\n"),
        "{}",
        ran.stderr
    );
    let ran = run("doctor --store redlock://u:hunter2@a,,b");
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(!ran.stderr.contains("hunter2"));
}
