//! A TCP proxy inside this process that simulates a network with faults.
//!
//! `tc netem` needs privileges and is often missing. The proxy needs neither, and can also count what passes.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::Socket;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

use crate::wire::{Conversation, Wire};

mod fate;
mod pump;
mod vanished;

pub use fate::{Amount, Direction, Fate, ReplyFate, StandIn};
use pump::{Cut, Way, pump};

type Judge = Arc<dyn Fn(&[u8]) -> Fate + Send + Sync>;

type ReplyJudge = Arc<dyn Fn() -> ReplyFate + Send + Sync>;

/// Returns what stands in for the reply to a command with this name, if anything does.
type CommandJudge = Arc<dyn Fn(&str) -> Option<StandIn> + Send + Sync>;

/// How much has passed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// How many connections clients have made.
    pub connections: u64,
    /// From clients to the server.
    pub to_server: Traffic,
    /// From the server to clients.
    pub to_client: Traffic,
    /// How often the server has sent something after it was asked something.
    pub replies: u64,
    /// How many replies to [steps](ReplyFate) have begun, if the proxy knows the protocol.
    pub steps: u64,
}

/// How much has passed in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes that were forwarded.
    pub bytes: u64,
    /// RESP messages that were forwarded completely: top-level commands or answers.
    pub messages: u64,
    /// Bytes that were dropped.
    pub swallowed: u64,
}

/// A proxy in front of one server at a time, with faults that are set and healed while it runs.
///
/// Faults apply to all existing and future connections from the moment the call returns: they affect what is read from a
/// socket after that. Dropping the proxy closes all connections.
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

    /// Listens on a free loopback port and forwards everything to `server`, which need not run yet.
    ///
    /// # Errors
    /// Returns the system's error if it cannot listen or start a thread.
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

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards new connections to another server, like an address that moves. Existing connections stay with their server until they are
    /// [cut](Self::cut) or it dies.
    pub fn point_at(&self, server: SocketAddr) {
        *self.shared.server() = server;
    }

    /// Delays what travels in this direction, in order, including the end of a connection. A sender that is 4 MiB ahead must
    /// wait.
    ///
    /// With [`FOREVER`](Self::FOREVER) this is a network partition as TCP sees it: nothing arrives, but nothing is lost once it is healed.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.shared
            .faults
            .send_modify(|faults| faults.delay[direction as usize] = by);
    }

    /// Drops all bytes in this direction like a black hole, and hides that the sender has closed or died. The connection stays
    /// open.
    ///
    /// A connection that lost bytes stays out of step after [`heal`](Self::heal), so a client should make a new one.
    pub fn swallow(&self, direction: Direction) {
        self.shared
            .faults
            .send_modify(|faults| faults.swallow[direction as usize] = true);
    }

    /// Closes every connection. New ones can be made.
    pub fn cut(&self) {
        self.shared.faults.send_modify(|faults| faults.cuts += 1);
    }

    /// Lets every connection that is open now die silently: nothing passes on it any more in either direction, and neither end learns that
    /// the other has closed it. Connections that are made from now on work. Returns how many connections died.
    ///
    /// Such a connection stays dead after [`heal`](Self::heal).
    pub fn bury(&self) -> u64 {
        let open = lock(&self.shared.open);
        let next = self.shared.connections.load(Ordering::Acquire);
        let mut before = 0;
        self.shared.faults.send_modify(|faults| {
            before = std::mem::replace(&mut faults.buried, next);
        });
        open.range(before..).count() as u64
    }

    /// Lets this much pass in this direction from now on, over all connections together, then closes the connection that carried the
    /// last of it. This happens once: what comes later passes.
    ///
    /// What passed was handed to the system, but an answer to it cannot come back.
    pub fn cut_after(&self, direction: Direction, amount: Amount) {
        *self.shared.allowance(direction) = Some(amount);
    }

    /// Lets `judge` decide about every message in this direction that begins from now on. In RESP3, a push message of the server begins
    /// with `>`.
    ///
    /// The judge is called on the proxy's thread, and must not block.
    pub fn judge(
        &self,
        direction: Direction,
        judge: impl Fn(&[u8]) -> Fate + Send + Sync + 'static,
    ) {
        *self.shared.judge(direction) = Some(Arc::new(judge));
    }

    /// Tells the proxy which protocol passes. This applies to connections that are made from now on.
    pub fn speaks(&self, wire: Wire) {
        *lock(&self.shared.wire) = Some(wire);
    }

    /// Starts anew: [`first_delivery`](Self::first_delivery) is `None` until something is forwarded to a client again.
    pub fn forget_first_delivery(&self) {
        *lock(&self.shared.first_delivery) = None;
    }

    /// Returns when something was first forwarded to a client since [`forget_first_delivery`](Self::forget_first_delivery). The time was
    /// taken before that.
    pub fn first_delivery(&self) -> Option<Instant> {
        *lock(&self.shared.first_delivery)
    }

    /// Lets `judge` decide about every [reply](ReplyFate) that arrives from now on.
    ///
    /// The judge is called on the proxy's thread, and must not block.
    pub fn judge_replies(&self, judge: impl Fn() -> ReplyFate + Send + Sync + 'static) {
        *self.shared.reply_judge() = Some(Arc::new(judge));
    }

    /// Lets `judge` decide which commands of Redis are answered with an error in place of the server's reply, from now on. It is asked about
    /// every [step](ReplyFate) outside a transaction, by the name of the command in upper case. The proxy must know that
    /// [RESP](Wire::Resp) passes.
    ///
    /// The judge is called on the proxy's thread, and must not block.
    pub fn stand_in(&self, judge: impl Fn(&str) -> Option<StandIn> + Send + Sync + 'static) {
        *lock(&self.shared.command_judge) = Some(Arc::new(judge));
    }

    /// Removes all faults. Delayed data are forwarded at once; swallowed data stay lost, and so do connections that are dead.
    pub fn heal(&self) {
        *self.shared.reply_judge() = None;
        *lock(&self.shared.command_judge) = None;
        for direction in [Direction::ToServer, Direction::ToClient] {
            *self.shared.judge(direction) = None;
        }
        for direction in [Direction::ToServer, Direction::ToClient] {
            *self.shared.allowance(direction) = None;
        }
        self.shared.faults.send_modify(|faults| {
            faults.delay = Default::default();
            faults.swallow = Default::default();
            faults.is_client_gone = false;
            faults.heals += 1;
        });
    }

    /// Returns how much has passed so far.
    pub fn counts(&self) -> Counts {
        let traffic = |direction: Direction| self.shared.tallies[direction as usize].read();
        Counts {
            connections: self.shared.connections.load(Ordering::Relaxed),
            to_server: traffic(Direction::ToServer),
            to_client: traffic(Direction::ToClient),
            replies: self.shared.replies.load(Ordering::Relaxed),
            steps: self.shared.steps.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The proxy is no longer needed, so a panic of its thread does not matter.
            let _ = thread.join();
        }
    }
}

/// The current faults, by [`Direction`].
#[derive(Debug, Clone, Default)]
struct Faults {
    delay: [Duration; 2],
    swallow: [bool; 2],
    cuts: u64,
    heals: u64,
    /// Connections with a lower number are dead.
    buried: u64,
    /// Connections with a lower number are those of clients that have vanished.
    vanished: u64,
    /// The machine of the clients is not on the network.
    is_client_gone: bool,
}

/// The state that the proxy and its connections share.
struct Shared {
    server: Mutex<SocketAddr>,
    faults: watch::Sender<Faults>,
    allowances: [Mutex<Option<Amount>>; 2],
    judges: [Mutex<Option<Judge>>; 2],
    reply_judge: Mutex<Option<ReplyJudge>>,
    command_judge: Mutex<Option<CommandJudge>>,
    wire: Mutex<Option<Wire>>,
    first_delivery: Mutex<Option<Instant>>,
    connections: AtomicU64,
    /// The connections that are open, whether or not they are dead, by number: the end that the server sees, once it is connected.
    open: Mutex<BTreeMap<u64, Option<Socket>>>,
    replies: AtomicU64,
    steps: AtomicU64,
    tallies: [Tally; 2],
}

impl Shared {
    fn in_front_of(server: SocketAddr) -> Self {
        Self {
            server: Mutex::new(server),
            faults: watch::Sender::new(Faults::default()),
            allowances: Default::default(),
            judges: Default::default(),
            reply_judge: Mutex::default(),
            command_judge: Mutex::default(),
            wire: Mutex::default(),
            first_delivery: Mutex::default(),
            connections: AtomicU64::new(0),
            open: Mutex::default(),
            replies: AtomicU64::new(0),
            steps: AtomicU64::new(0),
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
    fn server(&self) -> MutexGuard<'_, SocketAddr> {
        lock(&self.server)
    }

    fn judge(&self, direction: Direction) -> MutexGuard<'_, Option<Judge>> {
        lock(&self.judges[direction as usize])
    }

    fn reply_judge(&self) -> MutexGuard<'_, Option<ReplyJudge>> {
        lock(&self.reply_judge)
    }

    fn allowance(&self, direction: Direction) -> MutexGuard<'_, Option<Amount>> {
        lock(&self.allowances[direction as usize])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            // Too many open files, or a client that left before it was accepted.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let number = {
            // Whoever buries connections sees this one as open, or it is a later one.
            let mut open = lock(&shared.open);
            let number = shared.connections.fetch_add(1, Ordering::AcqRel);
            open.insert(number, None);
            number
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            connect(client, &shared, number).await;
            lock(&shared.open).remove(&number);
        });
    }
}

/// Runs one connection until both ends have closed it or it is cut. If the server cannot be reached, closes it at once.
async fn connect(client: TcpStream, shared: &Shared, number: u64) {
    let mut faults = shared.faults.subscribe();
    let cuts = faults.borrow().cuts;
    if faults.borrow().is_client_gone {
        // Whatever a machine sends that is not on the network arrives nowhere.
        let is_back = |faults: &Faults| !faults.is_client_gone || faults.cuts != cuts;
        let _ = faults.wait_for(is_back).await;
        return;
    }
    let server = *shared.server();
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    if !shared.keep_server_end(number, &server) {
        return;
    }
    for stream in [&client, &server] {
        // Without this, small messages would be delayed.
        let _ = stream.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let is_asked = AtomicBool::new(false);
    let conversation = lock(&shared.wire).map(|wire| Mutex::new(Conversation::of(wire)));
    let way = |direction| Way {
        shared,
        direction,
        number,
        cuts,
        is_asked: &is_asked,
        conversation: conversation.as_ref(),
    };
    let requests = pump(way(Direction::ToServer), from_client, to_server);
    let answers = pump(way(Direction::ToClient), from_server, to_client);
    tokio::select! {
        biased;
        _ = faults.wait_for(|faults| faults.cuts != cuts) => {}
        _ended = async { tokio::try_join!(requests, answers).map_err(|Cut| ()) } => {}
    }
}

#[cfg(test)]
mod tests;
