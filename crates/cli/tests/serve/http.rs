//! A minimal HTTP client that sends exactly what a test specifies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The time after which a test gives up.
pub(crate) const LONG: Duration = Duration::from_secs(60);

const PAGE: &str = include_str!("../../../../docs/checkout.md");

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut pairs = lines.filter_map(|line| line.split_once(": "));
        let found = pairs.find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the problem document, which the answer must be.
    pub(crate) fn problem(&self) -> Value {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let document = self.json();
        assert_eq!(document["status"], self.status, "{self:?}");
        for field in ["type", "title", "detail"] {
            assert!(document[field].is_string(), "{self:?}");
        }
        let kind = document["type"].as_str().unwrap_or_default();
        let kind = kind.strip_prefix("urn:fencepost:").unwrap_or_default();
        let row = format!("| `{kind}` | {} |", self.status);
        assert!(
            PAGE.contains(&row),
            "docs/checkout.md has no row for {self:?}"
        );
        document
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client(pub(crate) SocketAddr);

impl Client {
    pub(crate) fn get(self, path: &str) -> Answer {
        self.send("GET", path, &[], "").unwrap()
    }

    pub(crate) fn post(self, path: &str, body: &Value) -> Answer {
        self.try_post(path, body, &[]).unwrap()
    }

    /// Returns an error if the connection broke before there was an answer.
    pub(crate) fn try_post(
        self,
        path: &str,
        body: &Value,
        headers: &[&str],
    ) -> std::io::Result<Answer> {
        let mut all = vec!["Content-Type: application/json"];
        all.extend(headers);
        self.send("POST", path, &all, &body.to_string())
    }

    pub(crate) fn send(
        self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> std::io::Result<Answer> {
        let mut stream = TcpStream::connect(self.0)?;
        stream.set_read_timeout(Some(LONG))?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|line| line.starts_with("Host:")) {
            head.push_str(&format!("Host: {}\r\n", self.0));
        }
        for line in headers {
            head.push_str(&format!("{line}\r\n"));
        }
        if method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
        let mut bytes = Vec::new();
        // A client that sends too much may be cut off after the answer.
        let read = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            read?;
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        };
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        Ok(Answer {
            status: status.unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        })
    }
}
