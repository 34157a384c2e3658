//! The servers of a trial, which the runs of a case share.

use std::any::Any;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use fencepost_rig::{Etcd, Postgres, Redis, Zookeeper};
use fencepost_trial::store::TrialStore;
use fencepost_trial::store::reach::reach;

/// The kind of a server that trials are held at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Redis,
    Redlock,
    Postgres,
    Etcd,
    Zookeeper,
}

/// Running servers, which end with the last case that uses them.
pub(crate) struct Servers {
    place: Place,
    pub(crate) address: String,
    _processes: Box<dyn Any>,
}

thread_local! {
    /// The servers that run now. A server ends with the thread that started it.
    static OPEN: RefCell<Vec<Weak<Servers>>> = const { RefCell::new(Vec::new()) };
}

/// How long servers on a busy machine may take until they answer.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The smallest number of servers that survives the loss of one.
const SEVERAL: usize = 3;

impl Place {
    pub(crate) fn is_installed(self) -> bool {
        match self {
            Self::Redis | Self::Redlock => Redis::is_installed(),
            Self::Postgres => cfg!(feature = "postgres") && Postgres::is_installed(),
            Self::Etcd => cfg!(feature = "etcd") && Etcd::is_installed(),
            Self::Zookeeper => cfg!(feature = "zookeeper") && Zookeeper::is_installed(),
        }
    }

    /// Returns the name of a store with such servers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Redlock => "redlock",
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
            Self::Zookeeper => "zk",
        }
    }

    /// Returns the TTL of trials there: short, but no shorter than these servers support.
    pub(crate) fn ttl_ms(self) -> u64 {
        match self {
            Self::Redis | Self::Postgres => 500,
            // The replies of its servers come one after the other.
            Self::Redlock => 1_000,
            Self::Etcd | Self::Zookeeper => 2_000,
        }
    }

    /// Returns running servers of this kind.
    pub(crate) fn open(self) -> Rc<Servers> {
        OPEN.with_borrow_mut(|open| self.open_among(open))
    }

    fn open_among(self, open: &mut Vec<Weak<Servers>>) -> Rc<Servers> {
        open.retain(|servers| servers.strong_count() > 0);
        let mut running = open.iter().filter_map(Weak::upgrade);
        if let Some(servers) = running.find(|servers| servers.place == self) {
            return servers;
        }
        let (address, processes) = self.start();
        reach(&TrialStore::named(&address).unwrap(), START_TIMEOUT).unwrap();
        let servers = Rc::new(Servers {
            place: self,
            address,
            _processes: processes,
        });
        open.push(Rc::downgrade(&servers));
        servers
    }

    fn start(self) -> (String, Box<dyn Any>) {
        match self {
            Self::Redis => {
                let server = Redis::start().unwrap();
                (server.url(), Box::new(server))
            }
            Self::Redlock => {
                let servers = [(); SEVERAL].map(|()| Redis::start().unwrap());
                let hosts = servers
                    .each_ref()
                    .map(|server| server.address().to_string());
                (format!("redlock://{}", hosts.join(",")), Box::new(servers))
            }
            Self::Postgres => {
                let server = Postgres::start_with(&["fsync=off"]).unwrap();
                (server.url(), Box::new(server))
            }
            Self::Etcd => {
                let server = Etcd::start().unwrap();
                (server.url(), Box::new(server))
            }
            Self::Zookeeper => {
                let server = Zookeeper::start().unwrap();
                (format!("zk://{}", server.address()), Box::new(server))
            }
        }
    }
}
