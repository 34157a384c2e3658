//! Code that several stores share: opening from blocking code, certificates, the shared connection and its silence, bells of keys,
//! renewals of many claims, the turn window, and parts of addresses.

#[cfg(all(
    feature = "blocking",
    any(
        feature = "redis",
        feature = "postgres",
        feature = "etcd",
        feature = "zookeeper"
    )
))]
pub(crate) mod blocking;
#[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
pub(crate) mod certificates;
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) mod current_session;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod foreign;
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) mod key_bells;
pub(crate) mod percent;
#[cfg(any(
    feature = "redis",
    feature = "postgres",
    feature = "sqlite",
    feature = "zookeeper"
))]
pub(crate) mod renewals;
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) mod silence;
#[cfg(any(feature = "redis", feature = "postgres", feature = "unstable-hooks"))]
pub(crate) mod times;
pub(crate) mod turn_window;
