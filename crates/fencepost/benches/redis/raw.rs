//! The limit for Redis: a blocking socket, pre-encoded commands, and nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Compares and deletes, as every client of the plain layout does to release a lock.
const RELEASE: &str =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

pub(crate) struct Raw {
    stream: BufReader<TcpStream>,
    release: String,
}

/// Encodes a command in the wire format.
pub(crate) fn encode(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the private server");
        stream.set_nodelay(true).expect("a socket");
        let mut raw = Self {
            stream: BufReader::new(stream),
            release: String::new(),
        };
        raw.release = raw.ask(&["SCRIPT", "LOAD", RELEASE]);
        raw
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> String {
        self.send(&encode(words));
        self.answer()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream
            .get_mut()
            .write_all(bytes)
            .expect("a server that reads");
    }

    /// Returns the next answer; for an array, its last text.
    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("an answer");
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "$" => self.text(rest.parse().expect("a length")),
            "*" => {
                let count: i64 = rest.parse().expect("a count");
                (0..count).fold(String::new(), |_, _| self.answer())
            }
            "-" => panic!("the server refused: {rest}"),
            _ => rest.to_owned(),
        }
    }

    fn text(&mut self, length: i64) -> String {
        let Ok(length) = usize::try_from(length) else {
            return String::new();
        };
        let mut text = vec![0; length + 2];
        self.stream.read_exact(&mut text).expect("a text");
        text.truncate(length);
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn set(&self, name: &str) -> Vec<u8> {
        encode(&["SET", name, "token", "NX", "PX", "10000"])
    }

    pub(crate) fn delete(&self, name: &str) -> Vec<u8> {
        encode(&["EVALSHA", &self.release, "1", name, "token"])
    }

    /// Returns how often clients have called scripts since the server was started.
    pub(crate) fn script_calls(&mut self) -> u64 {
        let stats = self.ask(&["INFO", "commandstats"]);
        let calls = |name: &str| {
            let line = stats.lines().find(|line| line.starts_with(name))?;
            let calls = line.split("calls=").nth(1)?;
            calls.split(',').next()?.parse::<u64>().ok()
        };
        ["cmdstat_evalsha:", "cmdstat_eval:"]
            .iter()
            .filter_map(|name| calls(name))
            .sum()
    }

    /// Returns how many commands clients send during `work`. Commands that scripts call inside the server do not count, so the server's own
    /// statistics cannot be used here. `MONITOR` slows the server down, so do not measure time during this.
    pub(crate) fn commands_during(&mut self, address: SocketAddr, work: impl FnOnce()) -> u64 {
        const LAST: &str = "bench:last";
        let mut watching = Self::connect(address);
        watching.ask(&["MONITOR"]);
        work();
        self.ask(&["ECHO", LAST]);
        let mut count = 0;
        loop {
            // `1700000000.123456 [0 127.0.0.1:40000] "SET" …`, or `[0 lua]`.
            let line = watching.answer();
            if line.contains(LAST) {
                return count;
            }
            count += u64::from(!line.contains("[0 lua]"));
        }
    }

    /// Returns the processor time of the server, in seconds.
    pub(crate) fn server_cpu(&mut self) -> f64 {
        let stats = self.ask(&["INFO", "cpu"]);
        ["used_cpu_sys:", "used_cpu_user:"]
            .iter()
            .filter_map(|name| stats.lines().find_map(|line| line.strip_prefix(name)))
            .filter_map(|seconds| seconds.trim().parse::<f64>().ok())
            .sum()
    }
}
