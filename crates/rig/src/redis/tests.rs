//! Tests of the private Redis server: that it answers alone at its port, restarts, and leaves nothing behind.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn program(script: &str) -> (TempDir, PathBuf) {
    let folder = folder().unwrap();
    let file = folder.path().join("redis-server");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, file)
}

fn gone(pid: i32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_private_server_answers_and_leaves_nothing_behind() {
    let server = Redis::start().unwrap();
    let mut connection = Connection::open(server.address(), ANSWER).unwrap();
    assert_eq!(
        connection
            .ask(&["SET", "k", "v", "NX", "PX", "5000"])
            .unwrap(),
        Value::Word("OK".into())
    );
    assert_eq!(
        connection.ask(&["GET", "k"]).unwrap(),
        Value::Text("v".into())
    );
    let Value::List(save) = connection.ask(&["CONFIG", "GET", "save"]).unwrap() else {
        panic!("no list")
    };
    assert_eq!(save[1], Value::Text(String::new()), "no persistence");
    assert!(server.url().starts_with("redis://127.0.0.1:"));
    assert!(
        server.version().split('.').count() >= 2,
        "{}",
        server.version()
    );
    let (pid, folder) = (server.pid(), server.folder.path().to_owned());
    assert!(folder.exists());
    drop(server);
    assert!(gone(pid) && !folder.exists());
}

/// Returns the ports of a server without TLS.
fn plain(port: u16) -> Ports {
    Ports {
        plain: port,
        tls: None,
    }
}

#[test]
fn a_web_server_that_was_faster_on_the_port_is_nobodys_fault() {
    let faster = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = faster.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = faster.accept() {
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let started = Redis::start_on(
        &installed(&PROGRAMS).unwrap(),
        plain(port),
        &RedisBuilder::default(),
    );
    match started {
        Err(Attempt::PortTaken(_)) => {}
        Err(Attempt::Failed(error)) => panic!("no other port would be tried: {error}"),
        Ok(_) => panic!("the port was taken"),
    }
}

#[test]
fn behind_a_proxy_commands_are_counted_as_they_were_sent() {
    let server = Redis::start().unwrap();
    let proxy = crate::Proxy::start(server.address()).unwrap();
    let mut connection = Connection::open(proxy.address(), START_TIMEOUT).unwrap();
    let script = "redis.call('SET', 'k', 'v'); return redis.call('GET', 'k')";
    let said = connection.ask(&["EVAL", script, "0"]).unwrap();
    assert_eq!(said, Value::Text("v".into()));
    connection.ask(&["CONFIG", "GET", "*"]).unwrap();
    let counts = proxy.counts();
    assert_eq!(
        (counts.to_server.messages, counts.to_client.messages),
        (2, 2)
    );

    proxy.cut_after(crate::Direction::ToServer, crate::Amount::Messages(1));
    assert!(
        connection.ask(&["SET", "k", "w"]).is_err(),
        "the answer is lost"
    );
    let mut direct = Connection::open(server.address(), START_TIMEOUT).unwrap();
    let deadline = Instant::now() + START_TIMEOUT;
    while direct.ask(&["GET", "k"]).unwrap() != Value::Text("w".into()) {
        assert!(Instant::now() < deadline, "the command did arrive");
    }
}

#[test]
fn a_restarted_server_is_at_the_same_place_and_empty() {
    let mut server = Redis::start().unwrap();
    let address = server.address();
    let mut connection = Connection::open(address, ANSWER).unwrap();
    connection.ask(&["SET", "k", "v"]).unwrap();
    let pid = server.pid();
    server.restart().unwrap();
    assert_eq!(server.address(), address);
    assert!(gone(pid) && server.pid() != pid);
    let mut connection = Connection::open(address, ANSWER).unwrap();
    assert_eq!(connection.ask(&["GET", "k"]).unwrap(), Value::Nil);
}

#[test]
fn a_server_can_keep_its_data_and_take_arguments() {
    let how = Redis::builder().arguments(["--appendonly", "yes", "--unixsocket", "FOLDER/s"]);
    let mut server = how.start().unwrap();
    assert!(server.folder().join("s").exists());
    let mut connection = Connection::open(server.address(), ANSWER).unwrap();
    connection.ask(&["SET", "k", "v"]).unwrap();
    server.restart().unwrap();
    let mut connection = Connection::open(server.address(), ANSWER).unwrap();
    assert_eq!(
        connection.ask(&["GET", "k"]).unwrap(),
        Value::Text("v".into())
    );
}

#[test]
fn two_servers_do_not_meet() {
    let (one, other) = (Redis::start().unwrap(), Redis::start().unwrap());
    assert_ne!(one.address(), other.address());
    let mut connection = Connection::open(one.address(), ANSWER).unwrap();
    connection.ask(&["SET", "k", "v"]).unwrap();
    let mut connection = Connection::open(other.address(), ANSWER).unwrap();
    assert_eq!(connection.ask(&["GET", "k"]).unwrap(), Value::Nil);
}

#[test]
fn a_taken_port_is_noticed_whoever_has_it() {
    let other = Redis::start().unwrap();
    let program = installed(&PROGRAMS).unwrap();
    let on = |port| Redis::start_on(&program, plain(port), &RedisBuilder::default());
    assert!(
        matches!(on(other.address().port()), Err(Attempt::PortTaken(_))),
        "another Redis answers there"
    );
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    assert!(matches!(
        on(silent.local_addr().unwrap().port()),
        Err(Attempt::PortTaken(_))
    ));
}

#[test]
fn a_program_that_only_has_the_name_is_found_out() {
    let (_folder, file) = program("echo 'bad config' >&2; exit 3");
    let Err(ServerError::NotRunning {
        what, last_words, ..
    }) = Redis::start_program(&file)
    else {
        panic!("started")
    };
    assert!(what.contains("exit status: 3"), "{what}");
    assert_eq!(last_words, ["bad config"]);

    let http = "exec python3 -c 'import http.server, sys; http.server.test(port=int(sys.argv[2]), bind=\"127.0.0.1\")' \"$@\"";
    let (_folder, file) = program(http);
    let Err(ServerError::NotTheServer { what, .. }) = Redis::start_program(&file) else {
        panic!("started")
    };
    assert!(what.contains("not the answer of a Redis server"), "{what}");
}

#[test]
fn a_script_that_starts_the_server_will_do() {
    let (_folder, file) = program(&format!(
        "{} \"$@\"; exit $?",
        installed(&PROGRAMS).unwrap().display()
    ));
    let server = Redis::start_program(&file).unwrap();
    let mut connection = Connection::open(server.address(), ANSWER).unwrap();
    let Value::Text(info) = connection.ask(&["INFO", "server"]).unwrap() else {
        panic!("no text")
    };
    let pid = info
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"));
    let pid: i32 = pid.unwrap().parse().unwrap();
    assert_ne!(pid, server.pid());
    drop(server);
    let deadline = Instant::now() + START_TIMEOUT;
    while !gone(pid) {
        assert!(Instant::now() < deadline, "{pid} is left behind");
        std::thread::sleep(Duration::from_millis(5));
    }
}
