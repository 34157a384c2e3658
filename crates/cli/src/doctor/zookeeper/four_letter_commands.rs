//! Asks a ZooKeeper server for its state with four-letter commands (`srvr`, `mntr`).

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::ANSWER_TIMEOUT;

/// A server of the address, with its answers.
#[derive(Debug)]
pub(super) struct Server {
    host: String,
    /// Why the server does not answer; `None` if it does.
    silence: Option<String>,
    srvr: String,
    mntr: String,
}

impl Server {
    pub(super) async fn ask(host: &str) -> Self {
        let srvr = say(host, "srvr").await;
        let mntr = match &srvr {
            Ok(_) => say(host, "mntr").await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        Self {
            host: host.to_owned(),
            silence: srvr.as_ref().err().cloned(),
            srvr: srvr.unwrap_or_default(),
            mntr,
        }
    }

    #[cfg(test)]
    pub(super) fn of(host: &str, srvr: &str, mntr: &str) -> Self {
        Self {
            host: host.to_owned(),
            silence: None,
            srvr: srvr.to_owned(),
            mntr: mntr.to_owned(),
        }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns whether the server answers.
    pub(super) fn is_there(&self) -> bool {
        self.silence.is_none()
    }

    pub(super) fn silence(&self) -> Option<&str> {
        self.silence.as_deref()
    }

    /// Returns whether the server answers but serves no clients, because it has no majority.
    pub(super) fn serves_nobody(&self) -> bool {
        self.srvr.contains("not currently serving requests")
    }

    pub(super) fn version(&self) -> Option<&str> {
        let version = self.line("Zookeeper version: ")?;
        version.split(['-', ',']).next()
    }

    /// Returns `standalone`, `leader`, `follower` or `observer`.
    pub(super) fn mode(&self) -> Option<&str> {
        self.line("Mode: ")
    }

    /// Returns how many elections there have been.
    pub(super) fn epoch(&self) -> Option<u64> {
        let zxid = self.line("Zxid: ")?.trim().strip_prefix("0x")?;
        Some(u64::from_str_radix(zxid, 16).ok()? >> 32)
    }

    /// Returns a figure from `mntr`; `None` if it is missing or `mntr` is not allowed.
    pub(super) fn measure(&self, name: &str) -> Option<f64> {
        let line = self.mntr.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    }

    fn line(&self, label: &str) -> Option<&str> {
        self.srvr.lines().find_map(|line| line.strip_prefix(label))
    }
}

async fn say(host: &str, word: &str) -> Result<String, String> {
    let asking = async {
        let mut stream = TcpStream::connect(host).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    match tokio::time::timeout(ANSWER_TIMEOUT, asking).await {
        Ok(answer) => {
            answer.map_err(|error: std::io::Error| crate::command_error::system_words(&error))
        }
        Err(_) => Err("no answer".to_owned()),
    }
}
