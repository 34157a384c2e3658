//! Test equipment for the tests and the lab: real child processes, signals, private servers, a network that fails, and temporary
//! folders.
//!
//! The rig ends everything that it starts. A [`Child`] is a process with its own session and process group. When it is dropped, the whole
//! group is killed and reaped, and when the program that started it dies, the kernel kills it. A program that we do not trust gets a
//! supervisor, which ends everything that it starts; in a [`PidSpace`], it can get the process id of one that has ended. [`Redis`],
//! [`Postgres`], [`Etcd`] and [`Zookeeper`] are such children that answer on a free port. A [`Proxy`] between a client and a server loses,
//! delays or cuts what passes. A [`ClockShim`] sets the clocks of one program. [`Interrupt`] turns Ctrl-C into a flag that the program checks
//! at safe points, so that every `Drop` runs.

#[cfg(feature = "authority")]
mod authority;
mod child;
mod clock;
mod etcd;
mod feed;
mod folder;
mod frames;
mod limits;
#[cfg(not(target_os = "linux"))]
mod no_pid_space;
#[cfg(target_os = "linux")]
mod pid_space;
mod pooler;
mod postgres;
mod proxy;
mod redis;
pub mod resp;
mod server;
mod signals;
mod soak;
#[cfg(target_os = "linux")]
mod supervisor;
mod wire;
mod zookeeper;

#[cfg(feature = "authority")]
pub use authority::{Authority, Signed};
pub use child::Child;
pub use clock::{ClockShim, ProgramClock, ShimError, WallClock};
pub use etcd::{Etcd, EtcdBuilder, EtcdCluster};
pub use feed::{Feed, FeedItem, FeedSender, Output, Silence, bounded_feed, feed};
pub use folder::{TempDir, folder};
pub use limits::allow_open_files;
pub use nix::sys::signal::Signal;
#[cfg(not(target_os = "linux"))]
pub use no_pid_space::PidSpace;
#[cfg(target_os = "linux")]
pub use pid_space::PidSpace;
pub use pooler::Pooler;
pub use postgres::{Postgres, PostgresTemplate};
pub use proxy::{Amount, Counts, Direction, Fate, Proxy, ReplyFate, StandIn, Traffic};
pub use redis::{Redis, RedisBuilder};
pub use server::{ServerError, free_port};
pub use signals::{Interrupt, is_ignored, stop_self, with_default_signals};
pub use soak::is_soak;
pub use wire::Wire;
pub use zookeeper::{Zookeeper, ZookeeperEnsemble};
