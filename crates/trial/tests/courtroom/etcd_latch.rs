//! A lock on etcd: one key, with a lease, created only if it does not exist. It speaks to etcd's JSON gateway.
//!
//! The lease is a new one for each grant or, as in etcd's own `concurrency` package, that of a session, which is older than the request and lasts
//! as long as the process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::flaw::Flaw;
use crate::part::ExternalLock;
use crate::remote::Remote;

/// How long a server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The lock from the point of view of one process.
pub(crate) struct EtcdLatch {
    host: String,
    space: String,
    ttl: Duration,
    flaw: Option<Flaw>,
    /// The lease of the session, if there is one.
    session: Option<String>,
}

impl EtcdLatch {
    /// A lock that renews in the background keeps a session.
    pub(crate) fn at(address: &str, space: &str, ttl: Duration, lock: ExternalLock) -> Self {
        let host = address.split(['/', '?']).next().unwrap_or_default();
        let mut latch = Self {
            host: host.into(),
            space: space.into(),
            ttl,
            flaw: lock.flaw,
            session: None,
        };
        latch.session = lock.renews.then(|| latch.begin_session());
        latch
    }

    fn begin_session(&self) -> String {
        let (host, lease, pause) = (self.host.clone(), self.lease(), self.ttl / 3);
        let renewal = json!({ "ID": lease });
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(pause);
                ask(&host, "lease/keepalive", &renewal);
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
        ask(&self.host, what, question)
    }
}

fn ask(host: &str, what: &str, question: &Value) -> Value {
    let question = question.to_string();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    let length = question.len();
    write!(
        stream,
        "POST /v3/{what} HTTP/1.0\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{question}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
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
