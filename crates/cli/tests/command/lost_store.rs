//! Tests of trials in which the store forgets a held lock: a replica takes over, or a server comes back empty.

use nix::sys::signal::Signal;

use crate::holds::tells;
use crate::interrupt::{processes, send, start};
use crate::{fencepost, finish, run};

#[test]
fn a_replica_that_takes_over_lets_a_second_one_in() {
    tells(
        "trial failover --seed 7041",
        1,
        "\
trial failover the primary dies before its replica has A's lock; the replica takes over
lock safe TTL N ms store redis (a primary, a replica) seed N

at ms A B
N ── the replica is cut off: it gets no more writes ──
… N tries once: refused
N ── the primary is killed (SIGKILL) ──
N ── the replica takes over at the same address, without the lock ──
… N writes N op N
… BROKEN Two holders at once: the replica took over without A's lock. One update is lost.
proof #N N ms the replica takes over at the same address, without the lock
#N N ms B is granted product_A; A, granted it at N, held on to N
op N N ms A writes N: computed from op N, B's update is gone
belief two holders for N ms: B from N to N, A from N to N ms
damage N additions acknowledged, the number is N
why A primary answers before its replica has the write; what was not copied died with it.
next fencepost trial failover --lock=fenced lets the resource refuse A",
    );
}

#[test]
fn a_token_does_not_survive_the_loss_of_the_store() {
    for name in ["failover", "restart-empty"] {
        tells(
            &format!("trial {name} --lock=naive"),
            1,
            "… damage N additions acknowledged, the number is N",
        );
    }
}

#[test]
fn who_hears_of_the_loss_writes_nothing_any_more() {
    for name in ["failover", "restart-empty"] {
        tells(
            &format!("trial {name} --lock=watchdog"),
            0,
            "\
… N declines: its lock is lost
… HELD A stopped itself: it wrote nothing after its lock was lost.
… belief two holders for at most N ms; harmless here, because A wrote nothing meanwhile",
        );
    }
}

#[test]
fn a_server_that_comes_back_empty_lets_a_second_one_in() {
    tells(
        "trial restart-empty",
        1,
        "\
trial restart-empty the store's server dies while A holds the lock, and comes back empty
lock safe TTL N ms store redis (a private server) seed N

at ms A B
… N tries once: refused
N ── the server is killed (SIGKILL) ──
N ── the server runs again, empty ──
… BROKEN Two holders at once: the server came back without A's lock. One update is lost.",
    );
}

#[test]
fn a_fence_makes_the_second_holder_harmless() {
    for name in ["failover", "restart-empty"] {
        tells(
            &format!("trial {name} --lock=fenced"),
            0,
            "\
… HELD No damage: the resource refused A's late write (fence …N; it had seen …N).
… belief still two holders for N ms; harmless, because the resource asked for the fence
limits every resource must check the fence, on reads too; what cannot check is not protected",
        );
    }
}

#[test]
fn what_was_recorded_is_judged_alike_again() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("run.jsonl");
    let mut command = fencepost("trial failover --lock=fenced -q --history");
    let ran = finish(command.arg(&history).output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let again = finish(fencepost("check").arg(&history).output().unwrap());
    assert_eq!(again.code, 0, "{}", again.stdout);
    let words: Vec<&str> = again.stdout.split_whitespace().collect();
    assert!(
        words.join(" ").contains("the recorded verdict stands."),
        "{}",
        again.stdout
    );
}

#[test]
fn only_servers_of_the_labs_own_are_killed() {
    let server = fencepost_rig::Redis::start().unwrap();
    let url = server.url();
    for (store, what) in [
        ("sqlite", "a file has no server that could fail"),
        (
            url.as_str(),
            "this trial makes servers fail, so it uses only private servers that the lab starts",
        ),
    ] {
        let ran = run(&format!("trial failover --store {store}"));
        assert_eq!((ran.code, ran.stdout.as_str()), (64, ""), "{}", ran.stderr);
        assert_eq!(
            ran.stderr,
            format!(
                "error: {what}\n  where     --store {store}\n  \
                 effect    none: no process was started\n  \
                 try       fencepost trial failover --store redis\n"
            )
        );
    }
    let empty = tempfile::tempdir().unwrap();
    let nothing = fencepost("trial failover")
        .env("PATH", empty.path())
        .output();
    let ran = finish(nothing.unwrap());
    assert_eq!(ran.code, 69, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("apt-get install redis-server"),
        "{}",
        ran.stderr
    );
}

#[test]
fn ctrl_c_takes_all_servers_along() {
    for (name, event) in [
        ("failover", r#""change":"cut_off""#),
        ("failover", r#""change":"promoted""#),
        ("restart-empty", r#""event":"refused""#),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let child = start(folder.path(), &format!("trial {name}"), event, 1);
        send(&child, Signal::SIGINT);
        let ran = finish(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 130, "{name}: {}{}", ran.stdout, ran.stderr);
        let temporary = folder.path().join("tmp");
        assert_eq!(processes(&temporary), [] as [i32; 0], "{name}");
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{name}");
    }
}

#[cfg(feature = "postgres")]
#[test]
fn a_standby_that_takes_over_lets_a_second_one_in_unless_the_holder_knows() {
    tells(
        "trial failover --store postgres --seed 7041",
        1,
        "\
trial failover the primary dies before its standby has A's lock; the standby takes over
lock safe TTL N ms store postgres (a primary, a standby) seed N

at ms A B
N ── the standby is cut off: it gets no more writes ──
… N tries once: refused
N ── the primary is killed (SIGKILL) ──
N ── the standby takes over at the same address, without the lock ──
… BROKEN Two holders at once: the standby took over without A's lock. One update is lost.
… why A primary answers before its replica has the write; what was not copied died with it.",
    );
    // The end of its session, or of its connection, tells the holder.
    for lock in ["row", "table", "advisory", "watchdog"] {
        tells(
            &format!("trial failover --store postgres --lock={lock}"),
            0,
            "… HELD A stopped itself: it wrote nothing after its lock was lost.",
        );
    }
}

#[cfg(feature = "postgres")]
#[test]
fn fences_of_postgres_grow_although_the_standby_lacks_the_last_ones() {
    for store in ["postgres", "postgres?locks=advisory"] {
        tells(
            &format!("trial failover --store {store} --lock=fenced"),
            0,
            "\
… N ── the standby takes over at the same address, without the lock ──
… HELD No damage: the resource refused A's late write (fence …N; it had seen …N).",
        );
    }
}

/// The address chooses the fences of an earlier version of the library: numbers of transactions, which the standby hands out again.
#[cfg(feature = "postgres")]
#[test]
fn fences_that_repeat_after_a_failover_convict_the_lock() {
    tells(
        "trial failover --store postgres?locks=advisory&fence=transaction-id --lock=fenced",
        1,
        "\
… N ── the standby takes over at the same address, without the lock ──
… BROKEN Fences do not grow: B was granted product_A with fence N, after A with fence N.
… why The resource knows the latest holder by the highest fence; these do not say who that is.",
    );
}

#[cfg(feature = "etcd")]
#[test]
fn a_majority_keeps_the_lock_when_its_leader_dies() {
    for lock in ["safe", "watchdog"] {
        tells(
            &format!("trial failover --store etcd --lock={lock}"),
            0,
            "\
trial failover the leader dies while A holds the lock; the others elect a new one
… N ── the leader is killed (SIGKILL) ──
N ── the new leader is elected by the majority ──
N waits
… HELD The lock survived: B got it only after A had released it. No update is lost.",
        );
    }
}

#[test]
fn servers_that_cannot_fail_so_are_refused() {
    for (arguments, built_in, what, name) in [
        (
            "trial restart-empty --store etcd",
            cfg!(feature = "etcd"),
            "etcd keeps its data: it does not restart empty",
            "etcd",
        ),
        (
            "trial failover --store redlock",
            cfg!(feature = "redlock"),
            "Redlock has no replica that could take over",
            "Redlock",
        ),
        (
            "trial failover --lock=zookeeper",
            cfg!(feature = "zookeeper"),
            "this trial is not available on ZooKeeper yet",
            "ZooKeeper",
        ),
    ] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (64, ""), "{}", ran.stderr);
        let without = format!("this program was built without {name}");
        let what = if built_in { what } else { &without };
        assert!(
            ran.stderr.starts_with(&format!("error: {what}\n")),
            "{}",
            ran.stderr
        );
    }
}

#[cfg(not(feature = "redlock"))]
#[test]
fn a_default_store_that_is_not_built_in_is_refused_like_one_that_was_asked_for() {
    let ran = run("trial majority-down");
    assert_eq!((ran.code, ran.stdout.as_str()), (64, ""), "{}", ran.stderr);
    let error = "error: this program was built without Redlock\n";
    assert!(ran.stderr.starts_with(error), "{}", ran.stderr);
    assert!(ran.stderr.contains("--features full"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("or redis"), "{}", ran.stderr);
}

#[cfg(feature = "redlock")]
#[test]
fn one_of_three_servers_that_comes_back_empty_lets_a_second_one_in() {
    tells(
        "trial restart-empty --store redlock --seed 7041",
        1,
        "\
trial restart-empty A's lock is on two servers of three; one of them dies, and comes back empty
… N ── the third server is cut off: it gets no more writes ──
… N tries once: refused
N ── the third server can be reached again ──
N ── the first server is killed (SIGKILL) ──
N ── the first server runs again, empty ──
… BROKEN Two holders at once: the first server came back without A's lock. One update is lost.
… damage N additions acknowledged, the number is N
why The lock was on two of three: one forgot it, and the third had never heard of it.",
    );
    tells(
        "trial restart-empty --store redlock --lock=watchdog",
        0,
        "… HELD A stopped itself: it wrote nothing after its lock was lost.",
    );
    tells(
        "trial restart-empty --store redlock --lock=fenced",
        0,
        "… HELD No damage: the resource refused A's late write (fence …N; it had seen …N).",
    );
}

#[cfg(feature = "redlock")]
#[test]
fn a_server_that_forgot_the_lock_and_has_no_vote_lets_nobody_in() {
    tells(
        "trial restart-empty --store redlock?restart_delay=3s --ttl 3000",
        0,
        "\
… N ── the first server runs again, empty ──
… HELD The lock survived: the server that forgot it had no vote. No update is lost.",
    );
}

/// The store belongs to the user, and disappears for good once A has the lock.
#[test]
fn a_store_that_is_lost_during_a_trial_is_not_said_to_have_had_none() {
    let mut redis = fencepost_rig::Redis::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (arguments, event) in [
        ("crash --ttl 3000", r#""fault":"killed""#),
        // Every buyer pauses for a second between reading and writing the stock, so that the sale outlasts the store.
        (
            "oversell --concurrency 2 --delay 1000000",
            r#""event":"stock_set""#,
        ),
    ] {
        let arguments = format!("{arguments} --store {}", redis.url());
        let child = start(folder.path(), &arguments, event, 1);
        redis.crash();
        let ran = finish(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 69, "{}{}", ran.stdout, ran.stderr);
        let lost = "the store was lost during the trial";
        assert!(ran.stderr.contains(lost), "{}", ran.stderr);
        assert!(!ran.stderr.contains("none"), "{}", ran.stderr);
        redis.restart().unwrap();
    }
}
