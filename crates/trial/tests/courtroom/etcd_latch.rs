//! A lock on etcd: one key, with a lease, created only if it does not exist. It speaks to etcd's JSON gateway.
//!
//! The lease is a new one for each grant or, as in etcd's own `concurrency` package, that of a session, which is older than the request and lasts
//! as long as the process.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::flaw::Flaw;
use crate::part::ExternalLock;
use crate::remote::Remote;

/// How long a server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The codes of answers that another server, or a later try, may improve: a deadline that was exceeded, and a server without a leader.
const UNAVAILABLE: [Option<i64>; 2] = [Some(4), Some(14)];
/// The pause between two rounds of tries.
const PAUSE: Duration = Duration::from_millis(20);

/// The lock from the point of view of one process.
pub(crate) struct EtcdLatch {
    hosts: Vec<String>,
    space: String,
    ttl: Duration,
    flaw: Option<Flaw>,
    /// The lease of the session, if there is one.
    session: Option<String>,
}

impl EtcdLatch {
    /// A lock that renews in the background keeps a session.
    pub(crate) fn at(endpoints: &[String], space: &str, ttl: Duration, lock: ExternalLock) -> Self {
        let hosts = endpoints
            .iter()
            .filter_map(|endpoint| endpoint.strip_prefix("etcd://"));
        let hosts = hosts.filter_map(|address| address.split(['/', '?', '#']).next());
        let mut latch = Self {
            hosts: hosts.map(str::to_owned).collect(),
            space: space.into(),
            ttl,
            flaw: lock.flaw,
            session: None,
        };
        latch.session = lock.renews.then(|| latch.begin_session());
        latch
    }

    fn begin_session(&self) -> String {
        let (hosts, lease, pause) = (self.hosts.clone(), self.lease(), self.ttl / 3);
        let renewal = json!({ "ID": lease });
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(pause);
                ask(&hosts, "lease/keepalive", &renewal);
            }
        });
        lease
    }

    fn key(&self, key: &str) -> String {
        BASE64_STANDARD.encode(format!("{}:courtroom:{key}", self.space))
    }

    /// Returns the number of a new lease, as text.
    fn lease(&self) -> String {
        let granted = self.ask("lease/grant", &json!({ "TTL": self.ttl.as_secs() }));
        granted["ID"].as_str().unwrap().into()
    }

    fn ask(&self, what: &str, question: &Value) -> Value {
        ask(&self.hosts, what, question)
    }
}

/// Asks one server after the other, until one answers that is not without a leader.
fn ask(hosts: &[String], what: &str, question: &Value) -> Value {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let question = question.to_string();
    while Instant::now() < deadline {
        let mut answers = hosts.iter().map(|host| ask_one(host, what, &question));
        let is_final = |answer: &Value| !UNAVAILABLE.contains(&answer["code"].as_i64());
        if let Some(answer) = answers.find_map(|answer| answer.ok().filter(is_final)) {
            return answer;
        }
        std::thread::sleep(PAUSE);
    }
    Value::Null
}

fn ask_one(host: &str, what: &str, question: &str) -> io::Result<Value> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let length = question.len();
    write!(
        stream,
        "POST /v3/{what} HTTP/1.0\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{question}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer
        .split_once("\r\n\r\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(serde_json::from_str(body)?)
}

impl Remote for EtcdLatch {
    fn take(&mut self, key: &str, token: &str) -> bool {
        let key = self.key(key);
        let free =
            json!({ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" });
        let compare = match self.flaw {
            Some(Flaw::NoCondition) => json!([]),
            _ => json!([free]),
        };
        let mut put = json!({ "key": key, "value": BASE64_STANDARD.encode(token) });
        // Whoever finds the lock taken needs no lease.
        let there = self.ask("kv/range", &json!({ "key": key, "count_only": true }));
        let is_taken = there["count"].as_str().is_some_and(|count| count != "0");
        if is_taken && self.flaw != Some(Flaw::NoCondition) {
            return false;
        }
        if self.flaw != Some(Flaw::NoLease) {
            let session = self.session.clone();
            put["lease"] = session.unwrap_or_else(|| self.lease()).into();
        }
        let done = json!({ "compare": compare, "success": [{ "requestPut": put }] });
        self.ask("kv/txn", &done)["succeeded"] == true
    }

    fn give_back(&mut self, key: &str, token: &str) -> bool {
        let key = self.key(key);
        let value = BASE64_STANDARD.encode(token);
        let own = json!({ "key": key, "target": "VALUE", "result": "EQUAL", "value": value });
        let compare = match self.flaw {
            Some(Flaw::DeletesAnyKey) => json!([]),
            _ => json!([own]),
        };
        let delete = json!({ "requestDeleteRange": { "key": key } });
        let done = json!({ "compare": compare, "success": [delete] });
        self.ask("kv/txn", &done)["succeeded"] == true
    }

    fn is_untimed(&self) -> bool {
        self.session.is_some()
    }
}
