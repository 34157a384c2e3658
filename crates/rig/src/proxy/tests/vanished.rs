//! A machine that vanishes from the network.

use socket2::{SockRef, TcpKeepalive};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Lets the server's end look for signs of life: after a second, and twice more.
fn looks_for_life(served: &Stream) {
    let often = TcpKeepalive::new()
        .with_time(SECOND)
        .with_interval(SECOND)
        .with_retries(2);
    SockRef::from(served).set_tcp_keepalive(&often).unwrap();
}

#[test]
fn a_server_learns_nothing_of_the_death_of_a_client_that_has_vanished() {
    let (proxy, client, served) = pair();
    say(&client, "hello");
    assert_eq!(hear(&served, 5), "hello");
    assert_eq!(proxy.vanish().unwrap(), 1);
    say(&client, "lost");
    drop(client);
    assert!(hears_nothing(&served));
    assert_eq!(
        proxy.vanish().unwrap(),
        0,
        "the dead one is not counted again"
    );
}

#[test]
fn a_server_that_looks_for_signs_of_life_finds_none() {
    let (proxy, client, mut served) = pair();
    looks_for_life(&served);
    say(&client, "hello");
    assert_eq!(hear(&served, 5), "hello");
    proxy.vanish().unwrap();
    let read = served.read(&mut [0; 16]);
    let error = read.expect_err("nothing was sent, and nothing was closed");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
}

/// Its machine vanished and was healed while the server was being connected.
#[test]
fn a_connection_that_was_being_opened_is_as_dead_as_the_others() {
    let proxy = Proxy::start(echo()).unwrap();
    let client = connect_to(&proxy);
    say(&client, "hello");
    assert_eq!(hear(&client, 5), "hello");
    proxy.vanish().unwrap();
    proxy.heal();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for (number, is_dead) in [(0, true), (1, false)] {
        let opened = Stream::connect(listener.local_addr().unwrap()).unwrap();
        opened.set_nonblocking(true).unwrap();
        let opened = TcpStream::from_std(opened).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        assert!(proxy.shared.keep_server_end(number, &opened));
        looks_for_life(&served);
        served.set_read_timeout(Some(5 * SECOND)).unwrap();
        let error = served.read(&mut [0; 16]).expect_err("nothing was sent");
        // A read that takes too long would block.
        assert_eq!(error.kind() == io::ErrorKind::TimedOut, is_dead, "{error}");
    }
}

#[test]
fn a_server_that_sends_something_gives_up_when_nobody_acknowledges_it() {
    let (proxy, client, mut served) = pair();
    let at_most = Some(SECOND);
    SockRef::from(&served)
        .set_tcp_user_timeout(at_most)
        .unwrap();
    say(&client, "hello");
    assert_eq!(hear(&served, 5), "hello");
    proxy.vanish().unwrap();
    say(&served, "are you there?");
    let read = served.read(&mut [0; 16]);
    let error = read.expect_err("nothing was sent, and nothing was closed");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
}

#[test]
fn whoever_connects_meanwhile_reaches_nobody_until_the_machine_is_back() {
    let proxy = Proxy::start(echo()).unwrap();
    let before = connect_to(&proxy);
    say(&before, "hello");
    assert_eq!(hear(&before, 5), "hello");
    proxy.vanish().unwrap();
    let meanwhile = connect_to(&proxy);
    say(&meanwhile, "lost");
    assert!(hears_nothing(&meanwhile));
    proxy.heal();
    assert_eq!(hear_all(&meanwhile), "");
    let after = connect_to(&proxy);
    say(&after, "there");
    assert_eq!(hear(&after, 5), "there");
    say(&before, "lost");
    assert!(hears_nothing(&before));
}
