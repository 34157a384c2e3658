//! Reservations that nobody confirms.

use serde_json::{Value, json};

use crate::stage::{Stage, until};

#[test]
fn abandoned_units_come_back_and_confirmed_ones_never_do() {
    let stage = Stage::new();
    // Two instances: one of them sweeps.
    let one = stage.serve("--reserve-for 300ms");
    let other = stage.serve("--reserve-for 300ms");
    one.put_in("lamp", 10);
    let kept = one
        .order(&[("lamp", 1)])
        .header("location")
        .unwrap()
        .to_owned();
    let confirmed = other.client.post(&format!("{kept}/confirm"), &json!(null));
    assert_eq!(confirmed.status, 200, "{confirmed:?}");
    let left = other
        .order(&[("lamp", 4)])
        .header("location")
        .unwrap()
        .to_owned();
    let status = |path: &str| -> Value { one.client.get(path).json()["order_status"].clone() };
    until("it is swept", || status(&left) == "expired");
    let lamp = one.product("lamp");
    assert_eq!(
        [&lamp["stock"], &lamp["reserved"], &lamp["sold"]],
        [9, 0, 1]
    );
    assert_eq!(status(&kept), "confirmed");
    let late = one.client.post(&format!("{left}/confirm"), &json!(null));
    assert_eq!(
        late.status, 409,
        "too late: its units may be somebody else's"
    );
    one.adds_up();
}

#[test]
fn the_next_instance_sweeps_when_the_first_is_killed() {
    let stage = Stage::new();
    let mut first = stage.serve("--reserve-for 2s --ttl 500ms");
    first.put_in("lamp", 10);
    let second = stage.serve("--reserve-for 2s --ttl 500ms");
    let left = first
        .order(&[("lamp", 4)])
        .header("location")
        .unwrap()
        .to_owned();
    first.signal(nix::sys::signal::Signal::SIGKILL);
    first.end();
    until("the other sweeps", || {
        second.client.get(&left).json()["order_status"] == "expired"
    });
    assert_eq!(second.product("lamp")["stock"], 10);
    second.adds_up();
}
