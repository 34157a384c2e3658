//! Tests of `doctor` as a Redis user with limited rights.

use super::Patient;

const EVERYTHING: &str = "~* &* +@all";

fn healthy() -> Option<Patient> {
    let mut patient = Patient::admit()?;
    patient.tell("CONFIG SET appendonly yes");
    Some(patient)
}

#[test]
fn each_missing_right_is_named_and_no_other() {
    let Some(mut patient) = healthy() else { return };
    for (rights, troubles, says) in [
        ("", &[][..], "as user shop"),
        (
            "-config",
            &["unknown persistence", "unknown snapshots"],
            "snapshots user shop may not CONFIG GET save",
        ),
        (
            "-client",
            &["caution killing", "caution tracking"],
            "user shop may not CLIENT KILL",
        ),
        (
            "-client|kill",
            &["caution killing"],
            "A lock taken that way ends with its TTL",
        ),
        (
            "-subscribe",
            &["caution pub/sub"],
            "user shop may not SUBSCRIBE to fp:*",
        ),
        (
            "-publish",
            &["caution pub/sub"],
            "user shop may not PUBLISH to fp:*",
        ),
        (
            "-@scripting",
            &["danger scripts"],
            "user shop may not run scripts",
        ),
        (
            "-zadd -hset",
            &["danger keys"],
            "user shop may not call HSET, ZADD",
        ),
        ("-info", &["caution settings"], "user shop may not run INFO"),
        (
            "-time -acl",
            &["danger keys", "unknown clock"],
            "user shop may not call TIME",
        ),
    ] {
        let seen = patient.seen_by(format!("{EVERYTHING} {rights}").trim_end());
        let mut found = seen.troubles();
        found.sort();
        assert_eq!(found, troubles, "{rights}: {}", seen.ran.stdout);
        seen.says(says);
    }
}

#[test]
fn what_is_unknown_is_no_reason_to_fail() {
    let Some(mut patient) = healthy() else { return };
    let seen = patient.seen_by(&format!("{EVERYTHING} -config"));
    assert_eq!(seen.ran.code, 0, "{}", seen.ran.stdout);
    assert!(
        seen.ran.stdout.contains("\n2 unknown: "),
        "{}",
        seen.ran.stdout
    );
}

#[test]
fn keys_and_channels_of_others_only_are_told() {
    let Some(mut patient) = healthy() else { return };
    let seen = patient.seen_by("~shop:* &shop:* +@all");
    assert_eq!(seen.troubles(), ["danger keys", "caution pub/sub"]);
    seen.says("user shop may not use keys that begin with fp:");
    let seen = patient.seen_by("~fp:* ~shop:* &fp:* +@all");
    assert_eq!(seen.troubles(), [] as [&str; 0]);
    // The user that docs/doctor.md suggests.
    let proposed = "~fp:* ~lock:* &fp:* +@all -@admin -@dangerous +client|kill +info";
    let seen = patient.seen_by(proposed);
    assert_eq!(
        (seen.ran.code, seen.troubles().len()),
        (0, 2),
        "{}",
        seen.ran.stdout
    );
}
