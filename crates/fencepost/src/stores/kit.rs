//! What the stores share.

#[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
pub(crate) mod certificates;
#[cfg(any(
    feature = "memory",
    feature = "sqlite",
    feature = "postgres",
    feature = "etcd",
    feature = "zookeeper"
))]
pub(crate) mod glob;
#[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
pub(crate) mod percent;
