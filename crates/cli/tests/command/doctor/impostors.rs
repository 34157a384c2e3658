//! Tests of `doctor` on addresses where nothing answers, and on servers that are not Redis, are several, are too old, or have a
//! wrong clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;

use super::{ANSWER_TIMEOUT, Patient, Seen};
use crate::interrupt::send;
use crate::{fencepost, finish, run};

/// Serves each connection with `serve`, on a separate thread.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = std::sync::Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn refused(store: &str, message: &str) {
    let ran = run(&format!("doctor --store {store}"));
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""), "{}", ran.stderr);
    assert!(ran.stderr.starts_with(message), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("\n  effect    none: nothing was examined\n")
    );
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

#[test]
fn where_nobody_listens() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let message = format!(
        "error: cannot reach the store\n  where     redis://shop:***@127.0.0.1:{port}: connection refused, tried for 2.0 s\n"
    );
    refused(&format!("redis://shop:hunter2@127.0.0.1:{port}"), &message);
}

#[test]
fn a_web_server() {
    let address = listen(|mut stream| {
        let _ = stream.read(&mut [0; 512]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    refused(
        &format!("redis://{address}"),
        "error: this is not a Redis server\n",
    );
}

#[test]
fn a_server_that_lets_nobody_in() {
    let Some(mut patient) = Patient::admit() else {
        return;
    };
    patient.tell("CONFIG SET requirepass hunter1");
    let url = patient.server.url();
    refused(&url, "error: cannot use the store\n");
    refused(
        &url.replace("redis://", "redis://:hunter2@"),
        "error: cannot use the store\n",
    );
}

#[test]
fn a_server_that_stopped() {
    let Some(patient) = Patient::admit() else {
        return;
    };
    patient.server.signal(Signal::SIGSTOP).unwrap();
    assert!(patient.server.wait_stopped(ANSWER_TIMEOUT));
    let message = format!(
        "error: cannot reach the store\n  where     {}: no answer",
        patient.server.url()
    );
    refused(&patient.server.url(), &message);
}

/// A wait for an answer that is interrupted this way is not an answer either.
#[test]
fn who_examines_may_be_stopped_and_continued() {
    let Some(patient) = Patient::admit() else {
        return;
    };
    patient.server.signal(Signal::SIGSTOP).unwrap();
    assert!(patient.server.wait_stopped(ANSWER_TIMEOUT));
    let mut child = fencepost(&format!("doctor --store {}", patient.server.url()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() {
        send(&child, Signal::SIGSTOP);
        send(&child, Signal::SIGCONT);
        std::thread::sleep(Duration::from_millis(20));
    }
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (69, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains(": no answer"), "{}", ran.stderr);
}

#[test]
fn several_servers_behind_one_address() {
    let (Some(one), Some(two)) = (Patient::admit(), Patient::admit()) else {
        return;
    };
    let servers = [one.server.address(), two.server.address()];
    let turn = AtomicUsize::new(0);
    let address = listen(move |client| {
        let server = servers[turn.fetch_add(1, Ordering::Relaxed) % 2];
        let server = TcpStream::connect(server).unwrap();
        let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut up, &mut &server));
        let _ = std::io::copy(&mut down, &mut &client);
    });
    let seen = Seen::at(&format!("redis://{address}"));
    assert_eq!(seen.troubles(), ["danger proxy", "caution persistence"]);
    seen.says("2 different servers answer at this address");
    assert_eq!(seen.finding("proxy")["figures"]["servers"], 2);
}

/// Returns the words of the next command.
fn command(stream: &mut impl BufRead) -> Option<Vec<String>> {
    let line = |stream: &mut dyn BufRead| {
        let mut line = String::new();
        let read = stream.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    };
    let words: usize = line(stream)?.strip_prefix('*')?.parse().ok()?;
    let mut word = || {
        let length: usize = line(stream)?.strip_prefix('$')?.parse().ok()?;
        let mut bytes = vec![0; length + 2];
        stream.read_exact(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    };
    (0..words).map(|_| word()).collect()
}

/// Behaves like Redis 5, with a clock that is set an hour ahead while it is asked.
fn an_old_server() -> SocketAddr {
    let asked = AtomicU32::new(0);
    listen(move |stream| {
        let mut input = BufReader::new(stream.try_clone().unwrap());
        let mut output = stream;
        while let Some(words) = command(&mut input) {
            let reply = match words[0].to_uppercase().as_str() {
                "PING" => "+PONG\r\n".to_owned(),
                "INFO" => bulk(
                    "redis_version:5.0.7\r\nrole:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\nrun_id:1\r\n",
                ),
                "EVAL" if words[1] == "return 6 * 7" => ":42\r\n".to_owned(),
                "EVAL" => "$-1\r\n".to_owned(),
                "SUBSCRIBE" => format!("*3\r\n{}{}:1\r\n", bulk("subscribe"), bulk(&words[1])),
                "TIME" => {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                    let late = asked.fetch_add(1, Ordering::Relaxed) >= 100;
                    let seconds = now.as_secs() + if late { 3_600 } else { 0 };
                    let micros = now.subsec_micros().to_string();
                    format!("*2\r\n{}{}", bulk(&seconds.to_string()), bulk(&micros))
                }
                other => format!("-ERR unknown command `{other}`\r\n"),
            };
            if output.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[test]
fn an_old_server_with_an_unsteady_clock() {
    let ran = run(&format!(
        "doctor --json --store redis://{}",
        an_old_server()
    ));
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let found: Vec<String> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| {
            format!(
                "{} {}",
                found["severity"].as_str().unwrap(),
                found["topic"].as_str().unwrap()
            )
        })
        .collect();
    for expected in [
        "danger version",
        "danger protocol",
        "caution killing",
        "caution clock",
        "unknown snapshots",
    ] {
        assert!(
            found.contains(&expected.to_owned()),
            "{expected}: {found:?}"
        );
    }
    let step = report["findings"].as_array().unwrap().iter();
    let step = step
        .clone()
        .find(|found| found["topic"] == "clock")
        .unwrap();
    let ms = step["figures"]["step_ms"].as_f64().unwrap();
    assert!((3_590_000.0..3_610_000.0).contains(&ms), "{step}");
    assert_eq!(ran.code, 2);
}
