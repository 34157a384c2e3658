//! Starts a private Prometheus for one test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use fencepost_rig::{Child, feed};
use serde_json::Value;

use crate::files;
use crate::http::LONG;
use crate::stage::until;

pub(crate) fn is_installed() -> bool {
    let version = |program| Command::new(program).arg("--version").output();
    ["prometheus", "promtool"]
        .into_iter()
        .all(|program| version(program).is_ok())
}

/// A Prometheus process that is killed when it is dropped.
pub(crate) struct Prometheus {
    _process: Child,
    address: SocketAddr,
    // Dropped after the process, so that the folder is removed when nothing uses it any more.
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Starts Prometheus as deployed, but with another address and a shorter interval. Returns once it has scraped the service.
    pub(crate) fn reads(service: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = files::yaml("prometheus/prometheus.yml");
        config["global"]["scrape_interval"] = "250ms".into();
        config["global"]["evaluation_interval"] = "250ms".into();
        let job = config["scrape_configs"][0].as_object_mut().unwrap();
        let by_name = job.remove("dns_sd_configs");
        assert!(by_name.is_some_and(|names| names.is_array()), "{job:?}");
        let here = serde_json::json!([{"targets": [service.to_string()]}]);
        job.insert("static_configs".into(), here);
        let write = |file, text: String| std::fs::write(folder.path().join(file), text).unwrap();
        write("prometheus.yml", config.to_string());
        write("alerts.yml", files::text("prometheus/alerts.yml"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut command = Command::new("prometheus");
        command
            .args([
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                "--log.level=error",
            ])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(folder.path());
        let (_said, sender) = feed();
        let process = Child::spawn(command, 0, &sender).expect("prometheus");
        let this = Self {
            _process: process,
            address,
            _folder: folder,
        };
        until("Prometheus reads the service", || {
            let up = this.try_get("/api/v1/query?query=up");
            up.is_some_and(|up| up["data"]["result"][0]["value"][1] == "1")
        });
        this
    }

    /// Returns the current result of a query, or an error if the query is invalid.
    pub(crate) fn query(&self, expr: &str) -> Result<Vec<Value>, String> {
        let path = format!("/api/v1/query?query={}", encoded(expr));
        let answer = self.try_get(&path).ok_or("no answer")?;
        match answer["data"]["result"].as_array() {
            Some(found) if answer["status"] == "success" => Ok(found.clone()),
            _ => Err(answer.to_string()),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.try_get(path).unwrap()
    }

    /// Uses HTTP/1.0, where answers come in one piece.
    fn try_get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(LONG)).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    }
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
