//! Tests of the proxy: what passes, what each fault does to it, and when a cut falls.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener as Listener, TcpStream as Stream};
use std::time::Instant;

use super::*;

mod buried;
mod stand_in;
#[cfg(target_os = "linux")]
mod vanished;

const LONG: Duration = Duration::from_secs(20);
/// How long to wait before concluding that nothing arrives. If it is too short, a test can miss a defect but not report a false one.
const QUIET: Duration = Duration::from_millis(60);

/// Starts an echo server and returns its address.
fn echo() -> SocketAddr {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..length]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Returns a proxy, a client behind it, and the server's end of the connection.
fn pair() -> (Proxy, Stream, Stream) {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
    let client = connect_to(&proxy);
    let (served, _) = listener.accept().unwrap();
    served.set_read_timeout(Some(LONG)).unwrap();
    (proxy, client, served)
}

fn connect_to(proxy: &Proxy) -> Stream {
    let client = Stream::connect(proxy.address()).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.set_nodelay(true).unwrap();
    client
}

fn say(mut stream: &Stream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

fn hear(mut stream: &Stream, length: usize) -> String {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn hears_nothing(mut stream: &Stream) -> bool {
    stream.set_read_timeout(Some(QUIET)).unwrap();
    let read = stream.read(&mut [0; 16]);
    stream.set_read_timeout(Some(LONG)).unwrap();
    matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Reads everything up to the end of the connection, however it ends.
fn hear_all(mut stream: &Stream) -> String {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return text,
            Ok(length) => text.push_str(std::str::from_utf8(&buffer[..length]).unwrap()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return text,
            Err(error) => panic!("{error}"),
        }
    }
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn without_a_fault_everything_passes_and_is_counted() {
    let proxy = Proxy::start(echo()).unwrap();
    let text = "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    for _ in 0..3 {
        let client = connect_to(&proxy);
        say(&client, text);
        assert_eq!(hear(&client, text.len()), text);
    }
    let traffic = Traffic {
        bytes: 3 * text.len() as u64,
        messages: 6,
        swallowed: 0,
    };
    let expected = Counts {
        connections: 3,
        to_server: traffic,
        to_client: traffic,
        replies: 3,
        steps: 0,
    };
    assert_eq!(proxy.counts(), expected);
}

#[test]
fn a_large_stream_arrives_whole() {
    let proxy = Proxy::start(echo()).unwrap();
    let client = connect_to(&proxy);
    let text = "0123456789abcdef".repeat(200_000);
    let writer = {
        let (client, text) = (client.try_clone().unwrap(), text.clone());
        std::thread::spawn(move || say(&client, &text))
    };
    assert!(hear(&client, text.len()) == text);
    writer.join().unwrap();
}

#[test]
fn the_end_of_one_half_passes_and_the_other_half_goes_on() {
    let (_proxy, client, served) = pair();
    say(&client, "last");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(hear_all(&served), "last");
    say(&served, "answer");
    drop(served);
    assert_eq!(hear_all(&client), "answer");
}

#[test]
fn a_delay_holds_back_one_direction_and_keeps_the_order() {
    let (proxy, client, served) = pair();
    let by = Duration::from_millis(150);
    proxy.delay(Direction::ToServer, by);
    let sent = Instant::now();
    say(&client, "one");
    say(&served, "back");
    assert_eq!(hear(&client, 4), "back");
    let answered = sent.elapsed();
    say(&client, "two");
    assert_eq!(hear(&served, 6), "onetwo");
    assert!(sent.elapsed() >= by);
    assert!(
        answered < sent.elapsed(),
        "the other direction was not held back"
    );
}

#[test]
fn a_delay_is_a_longer_road_and_not_a_narrower_one() {
    let (proxy, client, served) = pair();
    let by = Duration::from_millis(300);
    proxy.delay(Direction::ToServer, by);
    let sent = Instant::now();
    for _ in 0..20 {
        say(&client, "x");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(hear(&served, 20), "x".repeat(20));
    assert!(
        sent.elapsed() < 10 * by,
        "one after the other it would take 20 × the delay: {:?}",
        sent.elapsed()
    );
}

#[test]
fn a_partition_loses_nothing_once_it_is_healed() {
    let (proxy, client, served) = pair();
    proxy.delay(Direction::ToServer, Proxy::FOREVER);
    say(&client, "late");
    client.shutdown(Shutdown::Write).unwrap();
    assert!(hears_nothing(&served));
    proxy.heal();
    assert_eq!(hear_all(&served), "late");
}

#[test]
fn a_black_hole_swallows_one_direction_and_the_connection_stays() {
    let (proxy, client, served) = pair();
    proxy.swallow(Direction::ToServer);
    say(&client, "lost");
    wait_for(|| proxy.counts().to_server.swallowed == 4);
    assert!(hears_nothing(&served));
    say(&served, "still");
    assert_eq!(hear(&client, 5), "still");
    proxy.heal();
    say(&client, "found");
    assert_eq!(hear(&served, 5), "found", "what was lost stays lost");
    assert_eq!(proxy.counts().to_server.bytes, 5);
}

#[test]
fn in_a_black_hole_nobody_learns_of_a_death() {
    let (proxy, client, served) = pair();
    proxy.swallow(Direction::ToServer);
    drop(client);
    assert!(hears_nothing(&served));
    say(&served, "are you there?");
    assert!(hears_nothing(&served));
    proxy.cut();
    assert_eq!(hear_all(&served), "");
}

#[test]
fn a_cut_closes_every_connection_and_new_ones_can_be_made() {
    let proxy = Proxy::start(echo()).unwrap();
    let clients = [connect_to(&proxy), connect_to(&proxy)];
    for client in &clients {
        say(client, "hello");
        assert_eq!(hear(client, 5), "hello");
    }
    proxy.cut();
    for client in &clients {
        assert_eq!(hear_all(client), "");
    }
    let client = connect_to(&proxy);
    say(&client, "again");
    assert_eq!(hear(&client, 5), "again");
}

#[test]
fn a_cut_falls_after_so_many_messages() {
    let (proxy, client, served) = pair();
    let ping = "*1\r\n$4\r\nPING\r\n";
    proxy.cut_after(Direction::ToServer, Amount::Messages(2));
    say(&client, &ping.repeat(3));
    assert_eq!(hear_all(&served), ping.repeat(2));
    assert_eq!(hear_all(&client), "");
    assert_eq!(proxy.counts().to_server.messages, 2);
}

#[test]
fn a_cut_falls_after_so_many_bytes_and_only_once() {
    let proxy = Proxy::start(echo()).unwrap();
    proxy.cut_after(Direction::ToClient, Amount::Bytes(7));
    let (first, second) = (connect_to(&proxy), connect_to(&proxy));
    say(&first, "hello");
    assert_eq!(hear(&first, 5), "hello");
    say(&second, "world");
    assert_eq!(hear_all(&second), "wo", "counted over all connections");
    say(&first, "passes");
    assert_eq!(hear(&first, 6), "passes");
}

#[test]
fn healing_takes_back_a_cut_to_come() {
    let (proxy, client, served) = pair();
    proxy.cut_after(Direction::ToServer, Amount::Bytes(2));
    proxy.heal();
    say(&client, "whole");
    assert_eq!(hear(&served, 5), "whole");
}

#[test]
fn dropping_the_proxy_closes_everything() {
    let (proxy, client, served) = pair();
    let address = proxy.address();
    drop(proxy);
    assert_eq!(
        (hear_all(&client), hear_all(&served)),
        (String::new(), String::new())
    );
    assert!(Stream::connect(address).is_err());
}

#[test]
fn a_server_that_is_not_there_closes_the_connection() {
    let nobody = {
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap()
    };
    let proxy = Proxy::start(nobody).unwrap();
    assert_eq!(hear_all(&connect_to(&proxy)), "");
}

#[test]
fn a_judge_decides_about_single_messages() {
    let (proxy, client, served) = pair();
    say(&served, ">1\r\n+bef");
    assert_eq!(hear(&client, 8), ">1\r\n+bef");
    proxy.judge(Direction::ToClient, |message| match message {
        b">1\r\n+lost\r\n" => Fate::Lose,
        b">1\r\n+late\r\n" => Fate::Late(Proxy::FOREVER),
        b">1\r\n+soon\r\n" => Fate::Late(QUIET),
        b">1\r\n+two\r\n" => Fate::Twice,
        b"+cut\r\n" => Fate::Cut,
        _ => Fate::Pass,
    });
    say(&served, "ore\r\n");
    let sent = Instant::now();
    for message in ["lost", "late", "soon", "two"] {
        say(&served, &format!(">1\r\n+{message}\r\n"));
    }
    // The message is sent in pieces, but judged as a whole.
    say(&served, "$2\r");
    say(&served, "\nok\r\n");
    let first = "ore\r\n>1\r\n+two\r\n>1\r\n+two\r\n$2\r\nok\r\n";
    assert_eq!(hear(&client, first.len()), first);
    assert_eq!(hear(&client, 11), ">1\r\n+soon\r\n");
    assert!(sent.elapsed() >= QUIET);
    assert!(hears_nothing(&client));
    client.set_read_timeout(Some(LONG)).unwrap();
    proxy.heal();
    assert_eq!(hear(&client, 11), ">1\r\n+late\r\n");
    say(&served, ">1\r\n+lost\r\n");
    assert_eq!(hear(&client, 11), ">1\r\n+lost\r\n");
    proxy.judge(Direction::ToClient, |_| Fate::Cut);
    say(&served, "+cut\r\n");
    assert_eq!((&client).read(&mut [0; 16]).unwrap_or(0), 0);
}

#[test]
fn an_end_does_not_overtake_what_is_late() {
    let (proxy, client, served) = pair();
    proxy.judge(Direction::ToServer, |_| Fate::Late(Proxy::FOREVER));
    say(&client, "+late\r\n");
    client.shutdown(Shutdown::Write).unwrap();
    assert!(hears_nothing(&served));
    served.set_read_timeout(Some(LONG)).unwrap();
    proxy.heal();
    assert_eq!(hear(&served, 7), "+late\r\n");
    assert_eq!((&served).read(&mut [0; 16]).unwrap(), 0);
}

#[test]
fn an_address_that_moves_leads_new_connections_to_the_new_server() {
    let servers = [(); 2].map(|()| Listener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let proxy = Proxy::start(servers[0].local_addr().unwrap()).unwrap();
    let old = connect_to(&proxy);
    let (served, _) = servers[0].accept().unwrap();
    proxy.point_at(servers[1].local_addr().unwrap());
    let new = connect_to(&proxy);
    let (served_anew, _) = servers[1].accept().unwrap();
    say(&old, "old");
    say(&new, "new");
    assert_eq!(
        [hear(&served, 3), hear(&served_anew, 3)],
        ["old", "new"],
        "who was there before stays where it is"
    );
}

/// Asks the echo server something and returns what it says, if it is this long.
fn ask(stream: &Stream, text: &str) -> String {
    say(stream, text);
    hear(stream, text.len())
}

#[test]
fn replies_are_counted_in_any_protocol() {
    let proxy = Proxy::start(echo()).unwrap();
    let (one, other) = (connect_to(&proxy), connect_to(&proxy));
    for client in [&one, &other, &one] {
        assert_eq!(
            ask(client, "\x00\x00\x07 no lines here"),
            "\x00\x00\x07 no lines here"
        );
    }
    assert_eq!(proxy.counts().replies, 3);
    let (proxy, client, served) = pair();
    say(&served, "unasked");
    assert_eq!(hear(&client, 7), "unasked");
    assert_eq!(proxy.counts().replies, 0);
    say(&client, "a question");
    hear(&served, 10);
    for part in ["in ", "three ", "parts"] {
        say(&served, part);
        hear(&client, part.len());
    }
    assert_eq!(proxy.counts().replies, 1);
}

#[test]
fn a_reply_is_held_back_in_order_until_the_proxy_is_healed() {
    let (proxy, client, served) = pair();
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    proxy.judge_replies(move || match count.fetch_add(1, Ordering::SeqCst) {
        1 => ReplyFate::Hold,
        _ => ReplyFate::Pass,
    });
    say(&client, "1");
    hear(&served, 1);
    say(&served, "one");
    assert_eq!(hear(&client, 3), "one");
    for (question, answer) in [("2", "two"), ("3", "three")] {
        say(&client, question);
        hear(&served, 1);
        say(&served, answer);
    }
    wait_for(|| seen.load(Ordering::SeqCst) == 3);
    assert!(
        hears_nothing(&client),
        "the third would overtake the second"
    );
    proxy.heal();
    assert_eq!(hear(&client, 8), "twothree");
    say(&client, "4");
    hear(&served, 1);
    say(&served, "four");
    assert_eq!(hear(&client, 4), "four");
}

#[test]
fn a_reply_can_end_its_connection_after_the_server_has_done_the_work() {
    let (proxy, client, served) = pair();
    proxy.judge_replies(|| ReplyFate::Cut);
    say(&client, "do it");
    assert_eq!(hear(&served, 5), "do it");
    say(&served, "done");
    assert_eq!(hear_all(&client), "");
    assert_eq!(hear_all(&served), "");
}

#[test]
fn replies_before_the_one_that_ends_a_connection_arrive() {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
    proxy.speaks(Wire::Resp);
    let client = connect_to(&proxy);
    let (served, _) = listener.accept().unwrap();
    let seen = AtomicU64::new(0);
    proxy.judge_replies(move || match seen.fetch_add(1, Ordering::SeqCst) {
        2 => ReplyFate::Cut,
        _ => ReplyFate::Pass,
    });
    let asked = "GET a\r\nGET b\r\nGET c\r\n";
    say(&client, asked);
    served.set_read_timeout(Some(LONG)).unwrap();
    hear(&served, asked.len());
    say(&served, ":1\r\n:2\r\n:3\r\n");
    // One byte of the third reply passes, and is of no use.
    assert_eq!(hear_all(&client), ":1\r\n:2\r\n:");
}

#[test]
fn a_reply_to_a_step_is_held_back_and_what_came_before_it_is_not() {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
    proxy.speaks(Wire::Resp);
    let client = connect_to(&proxy);
    let (served, _) = listener.accept().unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    proxy.judge_replies(move || match count.fetch_add(1, Ordering::SeqCst) {
        1 => ReplyFate::Hold,
        _ => ReplyFate::Pass,
    });
    say(&client, "PING\r\nGET a\r\nGET b\r\nGET c\r\n");
    let asked = "PING\r\nGET a\r\nGET b\r\nGET c\r\n".len();
    served.set_read_timeout(Some(LONG)).unwrap();
    hear(&served, asked);
    say(&served, "+PONG\r\n:1\r\n:2\r\n:3\r\n");
    // One byte of the second reply passes, and is of no use.
    assert_eq!(hear(&client, 12), "+PONG\r\n:1\r\n:");
    assert!(hears_nothing(&client));
    assert_eq!(seen.load(Ordering::SeqCst), 3);
    assert_eq!(proxy.counts().steps, 3);
    assert!(proxy.first_delivery().is_some());
    proxy.heal();
    assert_eq!(hear(&client, 7), "2\r\n:3\r\n");
}
