//! A headless Chromium, controlled through a pair of pipes, that records everything a page should not do.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::{Signal, killpg};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser is never silent for longer than this, even on a busy machine.
const MAX_SILENCE: Duration = Duration::from_secs(120);

#[rustfmt::skip]
const FLAGS: &[&str] = &[
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe", "about:blank",
];

/// Returns the path of the browser, if it is installed.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).flat_map(|folder| {
        ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name))
    });
    files.find(|file| file.is_file())
}

/// A browser with one page.
pub(crate) struct Chromium {
    child: Child,
    requests: File,
    messages: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    troubles: Vec<String>,
    /// The origin that a page may load from, besides itself.
    home: Option<String>,
    /// The folder of its profile and its pipes.
    _folder: TempDir,
}

impl Chromium {
    pub(crate) fn start() -> Self {
        let browser = program().expect("Chromium is not installed; see cargo xtask prepare");
        let folder = tempfile::tempdir().unwrap();
        let (requests, answers) = (
            folder.path().join("requests"),
            folder.path().join("answers"),
        );
        for pipe in [&requests, &answers] {
            mkfifo(pipe, Mode::S_IRWXU).unwrap();
        }
        // A named pipe that is opened in both directions does not block.
        let open = |path: &Path| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .unwrap()
        };
        let (to, from) = (open(&requests), open(&answers));
        let profile = format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        );
        let child = Command::new("sh")
            .args([
                "-c",
                r#"requests=$0 answers=$1; shift; exec "$@" 3<"$requests" 4>"$answers""#,
            ])
            .args([&requests, &answers, &browser])
            .arg(profile)
            .args(FLAGS)
            .env("TMPDIR", folder.path())
            .env("HOME", folder.path())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self {
            child,
            requests: to,
            messages: listen(from),
            last_id: 0,
            session: None,
            troubles: Vec::new(),
            home: None,
            _folder: folder,
        };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let target = self.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.ask("Target.attachToTarget", target);
        self.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.ask(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Sends a command and waits for the answer.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.try_to(method, params)
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_to(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.last_id += 1;
        let id = self.last_id;
        let mut request = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        let mut text = request.to_string().into_bytes();
        text.push(0);
        self.requests.write_all(&text).unwrap();
        loop {
            let message = self.messages.recv_timeout(MAX_SILENCE);
            let message = message.unwrap_or_else(|_| panic!("no answer to {method}"));
            if message["id"] == id {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => Err(error.clone()),
                };
            }
            self.notice(&message);
        }
    }

    /// Records what a page should not do: fail, log an error, or load anything.
    fn notice(&mut self, message: &Value) {
        let params = &message["params"];
        let trouble = match message["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => params["exceptionDetails"].to_string(),
            "Runtime.consoleAPICalled" => params["args"].to_string(),
            "Log.entryAdded" => params["entry"]["text"].to_string(),
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                let is_home = |home: &String| url.starts_with(home.as_str());
                if ["file:", "data:", "about:"]
                    .iter()
                    .any(|own| url.starts_with(own))
                    || self.home.as_ref().is_some_and(is_home)
                {
                    return;
                }
                format!("asks for {url}")
            }
            _ => return,
        };
        self.troubles.push(trouble);
    }

    /// Returns what went wrong since the last call.
    pub(crate) fn troubles(&mut self) -> Vec<String> {
        // An answer arrives after everything that happened before the request.
        self.evaluate("0");
        std::mem::take(&mut self.troubles)
    }

    pub(crate) fn resize(&mut self, width: u32) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }, { "name": "prefers-reduced-motion", "value": "reduce" }]);
        self.ask(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
    }

    /// Opens a page and waits until it has been drawn.
    pub(crate) fn open(&mut self, file: &Path) {
        let blank = self.ask("Page.navigate", json!({ "url": "about:blank" }));
        assert!(blank["errorText"].is_null());
        let url = format!("file://{}", file.canonicalize().unwrap().display());
        let answer = self.ask("Page.navigate", json!({ "url": url }));
        assert!(answer["errorText"].is_null(), "{answer}");
        self.wait_for("document.documentElement?.dataset.ready === 'true'");
    }

    /// Opens the page of a server, which may load from there and from nowhere else.
    pub(crate) fn visit(&mut self, address: SocketAddr) {
        let home = format!("http://{address}/");
        self.home = Some(home.clone());
        let answer = self.ask("Page.navigate", json!({ "url": home }));
        assert!(answer["errorText"].is_null(), "{answer}");
        self.wait_for("document.documentElement?.dataset.ready === 'true'");
        self.wait_for("document.querySelector('#link').textContent === 'connected'");
    }

    /// Returns a picture of the whole page as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let wanted = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.ask("Page.captureScreenshot", wanted);
        let text = answer["data"].as_str().unwrap();
        STANDARD.decode(text).unwrap()
    }

    /// Opens a page that is not one of ours.
    pub(crate) fn open_strange(&mut self, file: &Path) {
        let url = format!("file://{}", file.canonicalize().unwrap().display());
        self.ask("Page.navigate", json!({ "url": url }));
        self.wait_for("document.readyState === 'complete' && location.protocol === 'file:'");
    }

    pub(crate) fn wait_for(&mut self, condition: &str) {
        let until = Instant::now() + MAX_SILENCE;
        let params = json!({ "expression": condition, "returnByValue": true });
        // A page that is being replaced cannot answer.
        let is_so = |browser: &mut Self| {
            browser
                .try_to("Runtime.evaluate", params.clone())
                .is_ok_and(|answer| answer["result"]["value"] == true)
        };
        while !is_so(self) {
            assert!(
                Instant::now() < until,
                "waited in vain for {condition}; {:?}",
                self.troubles
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", params);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }

    /// Returns the text of the first element that matches a selector.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.evaluate(&format!(
            "document.querySelector({selector:?})?.innerText ?? ''"
        ));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Presses a key as a person does: the element with the focus receives it.
    pub(crate) fn press(&mut self, key: &str) {
        let text = match key {
            "Enter" => "\r",
            letter if letter.chars().count() == 1 => letter,
            _ => "",
        };
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            " " => 32,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            letter => u32::from(letter.to_ascii_uppercase().as_bytes()[0]),
        };
        let down = if text.is_empty() {
            "rawKeyDown"
        } else {
            "keyDown"
        };
        for kind in [down, "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
            self.ask("Input.dispatchKeyEvent", event);
        }
    }

    /// Waits until everything has been drawn.
    pub(crate) fn settle(&mut self) {
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))");
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The process group is its own, so no other process is hit. Its folder can be removed when no process writes to it any
        // more.
        let group = Pid::from_raw(self.child.id().cast_signed());
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
        let until = Instant::now() + Duration::from_secs(10);
        while killpg(group, None).is_ok() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Reads messages, which end with a zero byte.
fn listen(answers: File) -> Receiver<Value> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut answers = BufReader::new(answers);
        loop {
            let mut text = Vec::new();
            match answers.read_until(0, &mut text) {
                Ok(read) if read > 0 => text.pop(),
                _ => return,
            };
            let Ok(message) = serde_json::from_slice(&text) else {
                return;
            };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    receiver
}
