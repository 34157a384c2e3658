//! Connections that die silently.

use super::*;

#[test]
fn buried_connections_are_dead_for_good_and_new_ones_work() {
    let proxy = Proxy::start(echo()).unwrap();
    let (one, other) = (connect_to(&proxy), connect_to(&proxy));
    for client in [&one, &other] {
        say(client, "hello");
        assert_eq!(hear(client, 5), "hello");
    }
    drop(other);
    wait_for(|| lock(&proxy.shared.open).len() == 1);
    assert_eq!(proxy.bury(), 1);
    say(&one, "lost");
    assert!(hears_nothing(&one));
    let new = connect_to(&proxy);
    say(&new, "there");
    assert_eq!(hear(&new, 5), "there");
    proxy.heal();
    say(&one, "lost");
    assert!(hears_nothing(&one));
    assert_eq!(proxy.bury(), 1, "the dead one is not counted again");
    say(&new, "lost");
    assert!(hears_nothing(&new));
}

#[test]
fn the_other_end_of_a_buried_connection_does_not_learn_of_its_end() {
    let (proxy, client, served) = pair();
    say(&client, "hello");
    assert_eq!(hear(&served, 5), "hello");
    proxy.bury();
    drop(client);
    assert!(hears_nothing(&served));
    proxy.cut();
    assert_eq!(hear_all(&served), "");
}
