//! Jobs beside ShedLock on the same table: real `psql` processes send ShedLock's statements.

use std::time::Duration;

use fencepost::kinds::once::{Began, Finished, Once, Outcome, Why};
use fencepost_store_tests::test_program::{NamedTest, tests};

use crate::interop::{Psql, extend, insert, unlock, unlock_after, update};
use crate::support::{LONG, NAME, Server, eventually, locker, now, run};

pub(crate) const TESTS: &[NamedTest] =
    tests![each_keeps_the_other_out, at_least_keeps_the_other_out,];

async fn job(server: &Server) -> Once {
    let once = locker(&server.store().await, LONG).once(NAME).unwrap();
    once.at_most(Duration::from_secs(3600))
}

async fn why(once: &Once) -> Option<Why> {
    match once.begin().await.unwrap() {
        Began::Run(run) => {
            assert!(run.finish(Outcome::Failed).await.is_released());
            None
        }
        Began::Skipped(skipped) => Some(skipped.why),
    }
}

fn each_keeps_the_other_out() {
    run(async {
        let server = Server::start().await;
        let once = job(&server).await.slot("2026-11-19");
        let mut psql = Psql::start(&server, "ip-10-0-0-7");
        let Began::Run(ours) = once.begin().await.unwrap() else {
            panic!("nobody else runs it");
        };
        for statement in [insert(30), update(30), unlock(), extend(30)] {
            assert_eq!(psql.changes(&statement), 0, "{statement}");
        }
        assert!(ours.finish(Outcome::Failed).await.is_released());
        // They run the same job, without a slot.
        assert_eq!(psql.changes(&update(30)), 1);
        let Began::Skipped(skipped) = once.begin().await.unwrap() else {
            panic!("they run it");
        };
        assert_eq!(
            (skipped.why, skipped.by.as_deref()),
            (Why::Running, Some("ip-10-0-0-7"))
        );
        assert_eq!(psql.changes(&unlock()), 1);
        assert_eq!(why(&once).await, None);
    });
}

fn at_least_keeps_the_other_out() {
    run(async {
        let server = Server::start().await;
        let mut psql = Psql::start(&server, "ip-10-0-0-7");
        let at_least = Duration::from_secs(2);
        let once = job(&server).await.at_least(at_least);
        let begun_at = now();
        let Began::Run(quick) = once.begin().await.unwrap() else {
            panic!("nobody else runs it");
        };
        let finished = quick.finish(Outcome::Completed).await;
        assert!(matches!(finished, Finished::Left), "{finished:?}");
        assert_eq!(psql.changes(&update(30)), 0, "it has run a moment ago");
        eventually("their turn", async || psql.changes(&update(30)) == 1).await;
        assert!(now().saturating_duration_since(begun_at) >= at_least);
        // A quick run of theirs keeps us away.
        let theirs_at = now();
        assert_eq!(psql.changes(&unlock_after(2)), 1);
        assert_eq!(why(&once).await, Some(Why::Running));
        eventually("our turn", async || why(&once).await.is_none()).await;
        assert!(now().saturating_duration_since(theirs_at) >= Duration::from_millis(1500));
    });
}
