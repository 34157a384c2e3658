//! Futures that open a store are small. A program may await them anywhere, also in an unoptimized build, which keeps several copies of a
//! future on the stack: one test of ours overflowed the stack of its thread.

#![cfg(all(
    feature = "redis",
    feature = "redlock",
    feature = "postgres",
    feature = "etcd",
    feature = "zookeeper",
    feature = "sqlite",
))]

use fencepost::stores::etcd::Etcd;
use fencepost::stores::postgres::Postgres;
use fencepost::stores::postgres_table::PostgresTable;
use fencepost::stores::redis::Redis;
use fencepost::stores::redlock::Redlock;
use fencepost::stores::sqlite::Sqlite;
use fencepost::stores::zookeeper::Zookeeper;

const LARGEST: usize = 4096;

#[test]
fn opening_a_store_takes_little_memory() {
    let sizes = [
        ("etcd", size_of_val(&Etcd::open("etcd://a"))),
        ("postgres", size_of_val(&Postgres::open("postgres://a@b/c"))),
        (
            "postgres table",
            size_of_val(&PostgresTable::open("postgres://a@b/c")),
        ),
        ("redis", size_of_val(&Redis::open("redis://a"))),
        ("redlock", size_of_val(&Redlock::open("redlock://a,b,c"))),
        ("sqlite", size_of_val(&Sqlite::open("locks.db"))),
        ("zookeeper", size_of_val(&Zookeeper::open("zk://a"))),
    ];
    println!("{sizes:?}");
    let large: Vec<_> = sizes.iter().filter(|(_, size)| *size > LARGEST).collect();
    assert!(large.is_empty(), "larger than {LARGEST} bytes: {large:?}");
}
