//! A network that fails on demand: a TCP proxy of our own, inside this process.
//!
//! `tc netem` needs privileges and is often absent; this needs neither, and it can count what passes.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

mod pump;

use pump::{Cut, pump};

/// Which way bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: requests.
    ToServer,
    /// From the server to the client: answers.
    ToClient,
}

/// How much may still pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// So many bytes.
    Bytes(u64),
    /// So many messages of RESP: top-level commands, or answers. Whatever is no RESP counts by the line.
    Messages(u64),
}

/// What becomes of one message of RESP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is handed on in its turn.
    Pass,
    /// It vanishes, and the connection stays in step.
    Lose,
    /// It is handed on so much later, and others overtake it. With [`Proxy::FOREVER`]: when the proxy is healed.
    Late(Duration),
    /// It is handed on twice.
    Twice,
    /// The connection is closed instead, at both ends.
    Cut,
}

type Judge = Arc<dyn Fn(&[u8]) -> Fate + Send + Sync>;

/// What has passed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Connections that clients have made.
    pub connections: u64,
    /// From clients to the server.
    pub to_server: Traffic,
    /// From the server to clients.
    pub to_client: Traffic,
}

/// What has passed in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes handed on.
    pub bytes: u64,
    /// Messages of RESP that were handed on to their end: top-level commands, or answers.
    pub messages: u64,
    /// Bytes that vanished.
    pub swallowed: u64,
}

/// A proxy in front of one server (at a time), with faults that are set and healed while it runs.
///
/// Faults apply to all connections, those of today and those of tomorrow, from the moment the call returns: what is read
/// from a socket after that is treated accordingly. Dropping the proxy closes everything.
///
/// ```
/// use std::io::{Read, Write};
/// use fencepost_rig::{Direction, Proxy};
///
/// let server = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let proxy = Proxy::start(server.local_addr()?)?;
/// let mut client = std::net::TcpStream::connect(proxy.address())?;
/// let (mut served, _) = server.accept()?;
///
/// client.write_all(b"hello")?;
/// let mut heard = [0; 5];
/// served.read_exact(&mut heard)?;
/// assert_eq!(&heard, b"hello");
///
/// proxy.swallow(Direction::ToServer); // the server hears nothing more, the client notices nothing
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A delay that only [`heal`](Self::heal) ends.
    pub const FOREVER: Duration = Duration::MAX;

    /// Listens on a free loopback port and hands everything on to `server`, which need not run yet.
    ///
    /// # Errors
    /// The system's, when it cannot listen or start a thread.
    pub fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let shared = Arc::new(Shared::in_front_of(server));
        let (stop, stopped) = oneshot::channel();
        let serving = serve(listener, Arc::clone(&shared));
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new()
            .name("proxy".into())
            .spawn(work)?;
        Ok(Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hands on to another server from now on, as an address does that moves. Connections that are there stay with the server they
    /// lead to, until they are [cut](Self::cut) or it dies.
    pub fn point_at(&self, server: SocketAddr) {
        *self.shared.server() = server;
    }

    /// Hands on what travels that way only so much later, in order; the end of a connection, too. A sender that is 4 MiB
    /// ahead must wait.
    ///
    /// With [`FOREVER`](Self::FOREVER) this is a partition as TCP sees it: nothing arrives, and nothing is lost once it is healed.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.shared
            .faults
            .send_modify(|faults| faults.delay[direction as usize] = by);
    }

    /// A black hole: bytes that travel that way vanish, and so does the news that the sender has closed or died. The
    /// connection stays.
    ///
    /// A connection that lost bytes stays out of step after [`heal`](Self::heal): a client does well to make a new one.
    pub fn swallow(&self, direction: Direction) {
        self.shared
            .faults
            .send_modify(|faults| faults.swallow[direction as usize] = true);
    }

    /// Closes every connection. New ones can be made.
    pub fn cut(&self) {
        self.shared.faults.send_modify(|faults| faults.cuts += 1);
    }

    /// Lets so much pass that way from now on, over all connections together, then closes the one that carried the last of
    /// it. Once: what comes later passes.
    ///
    /// What passed was handed to the system; an answer to it cannot come back any more.
    pub fn cut_after(&self, direction: Direction, amount: Amount) {
        *self.shared.allowance(direction) = Some(amount);
    }

    /// Decides about every single message that travels that way and begins from now on. In RESP3, what the server sends unasked (a push)
    /// begins with `>`.
    ///
    /// The judge is called on the proxy's thread, and must not block.
    pub fn judge(
        &self,
        direction: Direction,
        judge: impl Fn(&[u8]) -> Fate + Send + Sync + 'static,
    ) {
        *self.shared.judge(direction) = Some(Arc::new(judge));
    }

    /// Takes all faults back. What was delayed goes out at once; what was swallowed stays lost.
    pub fn heal(&self) {
        for direction in [Direction::ToServer, Direction::ToClient] {
            *self.shared.judge(direction) = None;
        }
        for direction in [Direction::ToServer, Direction::ToClient] {
            *self.shared.allowance(direction) = None;
        }
        self.shared.faults.send_modify(|faults| {
            faults.delay = Default::default();
            faults.swallow = Default::default();
            faults.heals += 1;
        });
    }

    /// What has passed so far.
    pub fn counts(&self) -> Counts {
        let traffic = |direction: Direction| self.shared.tallies[direction as usize].read();
        Counts {
            connections: self.shared.connections.load(Ordering::Relaxed),
            to_server: traffic(Direction::ToServer),
            to_client: traffic(Direction::ToClient),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked in a way that matters to the one who is done with it.
            let _ = thread.join();
        }
    }
}

/// What is wrong with the network, by [`Direction`].
#[derive(Debug, Clone, Default)]
struct Faults {
    delay: [Duration; 2],
    swallow: [bool; 2],
    cuts: u64,
    heals: u64,
}

/// What the proxy and its connections have in common.
struct Shared {
    server: Mutex<SocketAddr>,
    faults: watch::Sender<Faults>,
    allowances: [Mutex<Option<Amount>>; 2],
    judges: [Mutex<Option<Judge>>; 2],
    connections: AtomicU64,
    tallies: [Tally; 2],
}

impl Shared {
    fn in_front_of(server: SocketAddr) -> Self {
        Self {
            server: Mutex::new(server),
            faults: watch::Sender::new(Faults::default()),
            allowances: Default::default(),
            judges: Default::default(),
            connections: AtomicU64::new(0),
            tallies: Default::default(),
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("faults", &self.faults.borrow())
            .field("allowances", &self.allowances)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn server(&self) -> std::sync::MutexGuard<'_, SocketAddr> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, direction: Direction) -> std::sync::MutexGuard<'_, Option<Judge>> {
        self.judges[direction as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn allowance(&self, direction: Direction) -> std::sync::MutexGuard<'_, Option<Amount>> {
        self.allowances[direction as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Tally {
    bytes: AtomicU64,
    messages: AtomicU64,
    swallowed: AtomicU64,
}

impl Tally {
    fn read(&self) -> Traffic {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Traffic {
            bytes: load(&self.bytes),
            messages: load(&self.messages),
            swallowed: load(&self.swallowed),
        }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Too many open files, or a client that left before it was let in.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        shared.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(connect(client, Arc::clone(&shared)));
    }
}

/// One connection, until both ends have closed it or it is cut. A server that is not there closes it at once.
async fn connect(client: TcpStream, shared: Arc<Shared>) {
    let mut faults = shared.faults.subscribe();
    let cuts = faults.borrow().cuts;
    let server = *shared.server();
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    for stream in [&client, &server] {
        // Without it, small messages would wait for each other.
        let _ = stream.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = pump(&shared, Direction::ToServer, cuts, from_client, to_server);
    let answers = pump(&shared, Direction::ToClient, cuts, from_server, to_client);
    tokio::select! {
        biased;
        _ = faults.wait_for(|faults| faults.cuts != cuts) => {}
        _ended = async { tokio::try_join!(requests, answers).map_err(|Cut| ()) } => {}
    }
}

#[cfg(test)]
mod tests;
