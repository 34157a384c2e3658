//! Places in line and their leases, one request at a time.

use std::time::Duration;

use etcd_client::Client;
use fencepost::clock::{BootClock, Clock};
use fencepost_rig::{Direction, Proxy};
use fencepost_store_tests::test_program::{NamedTest, tests};

use crate::support::{LONG, claim, now, open, run};

pub(crate) const TESTS: &[NamedTest] = tests![
    a_lease_is_not_booked_from_a_later_request,
    who_has_come_back_behind_us_is_not_waited_for,
];

/// A lease is granted, but the request that needed it fails. The next request uses the same lease; its first attempt is lost,
/// and the second finds that the lease exists. That request did not grant it, so the lease does not run from its time.
fn a_lease_is_not_booked_from_a_later_request() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let road = Proxy::start(server.address()).unwrap();
        let address = format!("etcd://{},{}", road.address(), server.address());
        let store = open(&address).await;
        let mut borrower = store.borrower();
        let ttl = Duration::from_secs(60);
        let asked_at = now();
        let (first, _) = borrower.borrow(77, ttl).await.unwrap();
        assert_eq!(first, 77);
        BootClock
            .sleep_until(asked_at + Duration::from_secs(4))
            .await;
        road.swallow(Direction::ToServer);
        let (second, believed) = borrower.borrow(77, ttl).await.unwrap();
        road.heal();
        let mut client = Client::connect([server.address().to_string()], None)
            .await
            .unwrap();
        let left = client.lease_time_to_live(second, None).await.unwrap().ttl();
        let left = Duration::from_secs(u64::try_from(left + 1).expect("a lease"));
        let over_at = now() + left;
        assert!(believed <= over_at, "{believed:?} but {over_at:?}");
    });
}

/// Our predecessor lost its place and came back with the same key, behind us, before our watch began. Waiting for that key
/// would mean waiting for a claim that waits for us.
fn who_has_come_back_behind_us_is_not_waited_for() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let mut client = Client::connect([server.address().to_string()], None)
            .await
            .unwrap();
        let put = client.put("before", "left", None).await.unwrap();
        let left = put.header().unwrap().revision();
        client.put("before", "written into", None).await.unwrap();
        let lease = client.lease_grant(60, None).await.unwrap().id();
        let claim = claim(LONG);
        let until_gone = || store.until_gone(&claim, ("before", left), (lease, LONG));
        // The key still exists, although it was overwritten, so we wait.
        let waiting = tokio::time::timeout(Duration::from_millis(300), until_gone());
        waiting.await.expect_err("it is still there");
        client.delete("before", None).await.unwrap();
        client.put("before", "back", None).await.unwrap();
        let gone = tokio::time::timeout(LONG / 2, until_gone());
        gone.await.expect("not waited for").expect("an answer");
    });
}
