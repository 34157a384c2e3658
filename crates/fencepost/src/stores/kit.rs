//! Code that several stores share: opening from blocking code, certificates, outages, and parts of addresses.

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
#[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
pub(crate) mod outage;
#[cfg(any(
    feature = "redis",
    feature = "postgres",
    feature = "etcd",
    feature = "zookeeper"
))]
pub(crate) mod percent;
#[cfg(any(feature = "redis", feature = "postgres", feature = "unstable-hooks"))]
pub(crate) mod times;
