//! Errors in place of the replies of a Redis server.

use super::*;

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const PING: &str = "*1\r\n$4\r\nPING\r\n";
const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

/// Returns a pair whose proxy answers every command of this name with an error.
fn refusing(name: &'static str, is_carried_out: bool) -> (Proxy, Stream, Stream) {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
    proxy.speaks(Wire::Resp);
    let stand_in = StandIn {
        error: OOM,
        is_carried_out,
    };
    proxy.stand_in(move |command| (command == name).then_some(stand_in));
    let client = connect_to(&proxy);
    let (served, _) = listener.accept().unwrap();
    served.set_read_timeout(Some(LONG)).unwrap();
    (proxy, client, served)
}

#[test]
fn a_command_that_is_refused_does_not_reach_the_server() {
    let (proxy, client, served) = refusing("SET", false);
    let get = "*2\r\n$3\r\nget\r\n$1\r\nk\r\n";
    // All at once: the replies keep their order.
    say(&client, &format!("{get}{SET}{get}"));
    let heard = format!("{get}{PING}{get}");
    assert_eq!(hear(&served, heard.len()), heard);
    say(
        &served,
        "$1\r\na\r\n+PONG\r\n>2\r\n+push\r\n:1\r\n$1\r\nb\r\n",
    );
    let answers = format!("$1\r\na\r\n-{OOM}\r\n>2\r\n+push\r\n:1\r\n$1\r\nb\r\n");
    assert_eq!(hear(&client, answers.len()), answers);
    proxy.heal();
    say(&client, SET);
    assert_eq!(hear(&served, SET.len()), SET);
    say(&served, "+OK\r\n");
    assert_eq!(hear(&client, 5), "+OK\r\n");
}

#[test]
fn a_command_that_is_carried_out_gets_an_error_too() {
    let (_proxy, client, served) = refusing("EVAL", true);
    let eval = "*4\r\n$4\r\neval\r\n$6\r\nreturn\r\n$1\r\n1\r\n$1\r\nk\r\n";
    for piece in [&eval[..7], &eval[7..]] {
        say(&client, piece);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(hear(&served, eval.len()), eval);
    for piece in ["*2\r\n:1", "\r\n$2\r\n", "ab\r\n+next\r\n"] {
        say(&served, piece);
        std::thread::sleep(Duration::from_millis(5));
    }
    let answers = format!("-{OOM}\r\n+next\r\n");
    assert_eq!(hear(&client, answers.len()), answers);
}

#[test]
fn what_is_no_step_or_part_of_a_transaction_passes() {
    for name in ["PING", "SUBSCRIBE"] {
        let (_proxy, client, served) = refusing(name, false);
        let command = format!("*1\r\n${}\r\n{name}\r\n", name.len());
        say(&client, &command);
        assert_eq!(hear(&served, command.len()), command);
    }
    let (_proxy, client, served) = refusing("SET", false);
    let (multi, exec) = ("*1\r\n$5\r\nMULTI\r\n", "*1\r\n$4\r\nEXEC\r\n");
    say(&client, &format!("{multi}{SET}{exec}{SET}"));
    let heard = format!("{multi}{SET}{exec}{PING}");
    assert_eq!(hear(&served, heard.len()), heard);
}

#[test]
fn a_transaction_that_was_begun_before_passes_too() {
    let (proxy, client, served) = refusing("SET", false);
    proxy.heal();
    let multi = "*1\r\n$5\r\nMULTI\r\n";
    say(&client, multi);
    assert_eq!(hear(&served, multi.len()), multi);
    let stand_in = StandIn {
        error: OOM,
        is_carried_out: false,
    };
    proxy.stand_in(move |_| Some(stand_in));
    say(&client, SET);
    assert_eq!(hear(&served, SET.len()), SET);
}

#[test]
fn a_transaction_that_was_begun_between_two_judges_passes_too() {
    let (proxy, client, served) = refusing("SET", false);
    let (multi, exec) = ("*1\r\n$5\r\nMULTI\r\n", "*1\r\n$4\r\nEXEC\r\n");
    say(&client, &format!("{multi}{exec}"));
    assert_eq!(
        hear(&served, multi.len() + exec.len()),
        format!("{multi}{exec}")
    );
    proxy.heal();
    say(&client, multi);
    assert_eq!(hear(&served, multi.len()), multi);
    let stand_in = StandIn {
        error: OOM,
        is_carried_out: false,
    };
    proxy.stand_in(move |_| Some(stand_in));
    say(&client, SET);
    assert_eq!(hear(&served, SET.len()), SET);
}

#[test]
fn other_protocols_are_left_alone() {
    let (proxy, client, served) = pair();
    proxy.speaks(Wire::Postgres);
    let stand_in = StandIn {
        error: OOM,
        is_carried_out: false,
    };
    proxy.stand_in(move |_| Some(stand_in));
    say(&client, SET);
    assert_eq!(hear(&served, SET.len()), SET);
}
