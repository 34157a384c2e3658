//! Tests of what counts as a reply to a step, in the protocol of each server.

use super::*;

/// Returns how many replies to steps begin in what the server says, however it is cut into pieces.
fn steps(wire: Wire, asked: &[u8], answered: &[u8]) -> usize {
    let of_size = |size: usize| {
        let mut conversation = Conversation::of(wire);
        asked
            .chunks(size)
            .for_each(|piece| conversation.asked(piece));
        let pieces = answered.chunks(size);
        let found = pieces.map(|mut piece| {
            let mut found = 0;
            while let Some(length) = conversation.answered(piece) {
                assert!((1..=piece.len()).contains(&length));
                piece = &piece[length..];
                found += 1;
            }
            found
        });
        found.sum::<usize>()
    };
    let found = of_size(usize::MAX);
    for size in [1, 2, 3, 7] {
        assert_eq!(of_size(size), found, "in pieces of {size}");
    }
    found
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    text.into_bytes()
}

#[test]
fn a_reply_of_redis_answers_a_step_unless_its_command_is_a_check() {
    let set = command(&["set", "k", "v", "NX"]);
    let asked = [
        command(&["PING"]),
        set.clone(),
        b"PING\r\n".to_vec(),
        set.clone(),
    ]
    .concat();
    let answered = b"+PONG\r\n$-1\r\n+PONG\r\n*2\r\n:1\r\n+OK\r\n";
    assert_eq!(steps(Wire::Resp, &asked, answered), 2);
    assert_eq!(
        steps(Wire::Resp, &asked, b"+PONG\r\n"),
        0,
        "not answered yet"
    );
    let hello = command(&["HELLO", "3", "AUTH"]);
    let pushed = [hello, command(&["SUBSCRIBE", "c"]), set.clone()].concat();
    let answered = b"%1\r\n+proto\r\n:3\r\n>3\r\n+subscribe\r\n+c\r\n:1\r\n+OK\r\n";
    assert_eq!(steps(Wire::Resp, &pushed, answered), 1);
    let listening = [command(&["SUBSCRIBE", "c"]), command(&["PING"])].concat();
    let told = b"*3\r\n+subscribe\r\n+c\r\n:1\r\n*3\r\n+message\r\n+c\r\n+x\r\n";
    assert_eq!(steps(Wire::Resp, &listening, told), 0);
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind], &length[..], body].concat()
}

#[test]
fn a_reply_of_postgres_answers_a_query_or_a_group_up_to_its_sync() {
    let greeting = [
        &16_u32.to_be_bytes()[..],
        &196_608_u32.to_be_bytes(),
        b"user\0ab\0",
    ]
    .concat();
    let welcome = [
        message(b'R', &[0; 4]),
        message(b'S', b"a\0b\0"),
        message(b'Z', b"I"),
    ]
    .concat();
    let group = [
        message(b'P', b"s\0SELECT lock($1)\0\0\0"),
        message(b'B', b"\0s\0"),
        message(b'E', b"\0\0\0\0\0"),
        message(b'S', b""),
    ]
    .concat();
    let asked = [
        greeting,
        message(b'Q', b"SELECT pg_try_advisory_lock(1)\0"),
        message(b'Q', b"SELECT 1\0"),
        group,
    ]
    .concat();
    let row = [message(b'D', b"x"), message(b'C', b"SELECT 1\0")].concat();
    let ready = message(b'Z', b"I");
    let grouped = [message(b'1', b""), message(b'2', b""), row.clone()].concat();
    let answered = [
        welcome,
        row.clone(),
        message(b'N', b"notice\0"),
        ready.clone(),
        row,
        ready.clone(),
        message(b'A', b"note"),
        grouped,
        ready,
    ]
    .concat();
    assert_eq!(steps(Wire::Postgres, &asked, &answered), 2);
}

#[test]
fn what_postgres_encrypts_has_no_steps() {
    let asks = [&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat();
    let encrypted = [asks.clone(), vec![22, 3, 1, 0, 1, 7]].concat();
    assert_eq!(
        steps(Wire::Postgres, &encrypted, b"S\x16\x03\x01\x00\x01\x07"),
        0
    );
    let greeting = [&8_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes()].concat();
    let plain = [asks, greeting, message(b'Q', b"SELECT lock()\0")].concat();
    let answered = [&b"N"[..], &message(b'Z', b"I"), &message(b'D', b"x")].concat();
    assert_eq!(steps(Wire::Postgres, &plain, &answered), 1);
}

fn packet(number: i32, rest: usize) -> Vec<u8> {
    let length = u32::try_from(4 + rest).unwrap().to_be_bytes();
    [&length[..], &number.to_be_bytes(), &vec![0; rest]].concat()
}

#[test]
fn a_reply_of_zookeeper_answers_a_step_unless_it_is_a_ping_or_a_watch() {
    let answered = [
        packet(0, 33),
        packet(1, 20),
        packet(-2, 12),
        packet(-1, 40),
        packet(2, 12),
    ]
    .concat();
    assert_eq!(steps(Wire::ZooKeeper, &[], &answered), 2);
}

fn frame(kind: u8, stream: u32, length: usize) -> Vec<u8> {
    let head = u32::try_from(length).unwrap().to_be_bytes();
    [
        &head[1..],
        &[kind, 0],
        &stream.to_be_bytes(),
        &vec![1; length],
    ]
    .concat()
}

#[test]
fn a_reply_of_etcd_answers_a_message_on_its_stream() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let asked = [
        preface,
        frame(4, 0, 6),
        frame(1, 1, 30),
        frame(0, 1, 12),
        frame(1, 3, 30),
        frame(0, 3, 12),
        frame(8, 0, 4),
    ]
    .concat();
    let answered = [
        frame(4, 0, 0),
        frame(6, 0, 8),
        frame(1, 3, 10),
        frame(0, 3, 20),
        frame(1, 1, 10),
        frame(0, 1, 20),
        // Trailers, and an event that a watch sends later.
        frame(1, 1, 5),
        frame(0, 3, 20),
    ]
    .concat();
    assert_eq!(steps(Wire::Grpc, &asked, &answered), 2);
    let cancelled = [asked.clone(), frame(3, 1, 4)].concat();
    assert_eq!(steps(Wire::Grpc, &cancelled, &answered), 1);
    assert_eq!(
        steps(Wire::Grpc, b"\x16\x03\x01 not HTTP/2 at all", &answered),
        0
    );
}
