//! Starts a private service for one test, with its files in a temporary folder.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fencepost_rig::with_default_signals;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::http::{Answer, Client, LONG};

/// The files of a service, which outlive it.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn scratch_folder(&self) -> PathBuf {
        let folder = self.path("scratch");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Returns what the service has left in its temporary folder.
    pub(crate) fn scratch(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.scratch_folder()).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        entries.map(name).collect()
    }

    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    fn lock_store(&self) -> String {
        format!("sqlite:{}", self.path("locks.db").display())
    }

    /// Returns a command for the program, with an environment that only says where the locks are.
    pub(crate) fn fencepost(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
        with_default_signals(&mut command);
        command
            .args(arguments.split_whitespace())
            .env("LC_ALL", "C.UTF-8")
            .env("FENCEPOST_STORE", self.lock_store())
            .env("TMPDIR", self.scratch_folder())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        for name in [
            "NO_COLOR",
            "CLICOLOR_FORCE",
            "TERM",
            "FENCEPOST_ADMIN_TOKEN",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &str) -> (i32, String, String) {
        let output = self.fencepost(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// Starts another program that holds `lock` until it is released. Returns when it holds it.
    pub(crate) fn hold(&self, lock: &str) -> Holder {
        self.hold_in(&self.lock_store(), lock)
    }

    /// The same with a lock in this store.
    pub(crate) fn hold_in(&self, store: &str, lock: &str) -> Holder {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap();
        let mut command = self.fencepost("exec");
        command.args(["--store", store, "--name", lock, "--", "sh", "-c"]);
        // It also ends when its folder is removed.
        command.arg("echo > held; while test -d . && test ! -e go; do sleep 0.01; done");
        command.current_dir(folder.path()).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        // From here on, a panic ends the program.
        let holder = Holder { child, folder };
        until("it is held", || holder.folder.path().join("held").exists());
        holder
    }

    /// Starts a service on a free port, with these flags. Returns when it answers.
    pub(crate) fn serve(&self, flags: &str) -> Service {
        self.serve_at(0, flags)
    }

    /// The same on this port.
    pub(crate) fn serve_at(&self, port: u16, flags: &str) -> Service {
        self.start(self.fencepost(&format!("serve --port {port} {flags}")))
    }

    /// Starts a service with this command. Returns when it answers.
    pub(crate) fn start(&self, mut command: Command) -> Service {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("stderr"));
        // The service gets its own process group, so that signals to it do not hit this program.
        command
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .process_group(0);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.unwrap_or_else(|| panic!("{line:?} {}", self.read("stderr")));
        Service {
            client: Client(address.parse().unwrap()),
            child,
        }
    }
}

/// Another program that holds a lock. It ends when it is dropped.
pub(crate) struct Holder {
    child: Child,
    /// The program ends when there is a file `go` in here.
    folder: tempfile::TempDir,
}

impl Holder {
    /// Lets the lock go, and waits until the program has ended.
    pub(crate) fn release(mut self) {
        assert!(self.end().unwrap().success());
    }

    fn end(&mut self) -> std::io::Result<ExitStatus> {
        std::fs::write(self.folder.path().join("go"), "")?;
        self.child.wait()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A running service that is killed when it is dropped.
pub(crate) struct Service {
    pub(crate) client: Client,
    child: Child,
}

impl Service {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, signal).unwrap();
    }

    /// Stops the service and waits until all its threads are stopped, because the signal takes effect with a delay.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        until("every thread has stopped", || {
            let threads = std::fs::read_dir(&tasks).unwrap();
            threads.flatten().all(|thread| {
                let status = std::fs::read_to_string(thread.path().join("status"));
                status.is_ok_and(|status| status.contains("State:\tT"))
            })
        });
    }

    /// Waits for the service to exit.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut status = None;
        until("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Stops the service as an operator does.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.end()
    }

    pub(crate) fn put_in(&self, product: &str, stock: i64) {
        let new = json!({"product_id": product, "shop_id": "s1", "name": product, "price_cents": 250, "stock": stock});
        let answer = self.client.post("/v1/products", &new);
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    pub(crate) fn product(&self, product: &str) -> Value {
        self.client.get(&format!("/v1/products/{product}")).json()
    }

    pub(crate) fn order(&self, lines: &[(&str, i64)]) -> Answer {
        self.client
            .post("/v1/checkout/order", &order("cart", lines))
    }

    /// Returns the value of a metric, which is named with its labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = self.client.get("/metrics").body;
        let mut lines = metrics.lines().filter_map(|line| line.rsplit_once(' '));
        let value = lines.find_map(|(own, value)| (own == name).then(|| value.parse().ok())?);
        value.unwrap_or_else(|| panic!("no {name}: {metrics}"))
    }

    /// Checks that every unit is accounted for.
    pub(crate) fn adds_up(&self) {
        let invariant = self.client.get("/v1/invariant").json();
        assert_eq!(invariant["holds"], true, "{invariant}");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the body of an order.
pub(crate) fn order(cart: &str, lines: &[(&str, i64)]) -> Value {
    let items: Vec<Value> = lines
        .iter()
        .map(|(product, quantity)| json!({"product_id": product, "quantity": quantity}))
        .collect();
    json!({"cart_id": cart, "user_id": "u1", "shop_orders": [{"shop_id": "s1", "item_products": items}]})
}

pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LONG, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `work` on `count` threads at once. Returns the results in the order of their numbers.
pub(crate) fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(count);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..count)
            .map(|number| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(number)
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    })
}
