//! Database users with limited rights on the lease table.

use fencepost::stores::postgres_table::PostgresTable;
use fencepost::{Backend, Effect, ErrorKind};

use crate::support::{LONG, NAME, Server, assert_error, claim, locker, run, soon};

const TABLES: [(&str, &[&str]); 3] = [
    ("shedlock", &["SELECT", "INSERT", "UPDATE"]),
    ("shedlock_fence", &["SELECT", "INSERT", "UPDATE"]),
    ("shedlock_line", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
];

fn as_app(server: &Server) -> String {
    format!("postgres://app@{}/postgres", server.0.address())
}

pub(crate) fn no_right_to_make_it() {
    run(async {
        let server = Server::bare(&[]);
        let plain = server.plain().await;
        plain.does("CREATE ROLE app LOGIN").await;
        let builder = PostgresTable::builder(&as_app(&server)).create_table(true);
        let error = builder.open().await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "CREATE TABLE IF NOT EXISTS",
        );
        assert!(error.to_string().contains("may not"), "{error}");
    });
}

/// The documented rights are sufficient for everything, including waiting.
pub(crate) fn exactly_the_rights() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        plain.does("CREATE ROLE app LOGIN").await;
        for (table, rights) in TABLES {
            plain
                .does(&format!("GRANT {} ON {table} TO app", rights.join(", ")))
                .await;
        }
        let open =
            async || std::sync::Arc::new(PostgresTable::open(&as_app(&server)).await.unwrap());
        let (one, other) = (open().await, open().await);
        let (holder, waiter) = (locker(&one, LONG), locker(&other, LONG));
        for _ in 0..3 {
            let held = soon("the lock", holder.acquire(NAME)).await.unwrap();
            held.extend(LONG).await.unwrap();
            let waiter = waiter.clone();
            let waiting = tokio::spawn(async move { waiter.acquire(NAME).await.unwrap() });
            server.wait_for_line(1).await;
            assert_eq!(one.list(None).await.unwrap().len(), 1);
            assert!(held.release().await.is_released());
            let next = soon("the next", waiting).await.unwrap();
            assert!(next.release().await.is_released());
        }
        // A lost connection can be replaced, and the old one terminated.
        plain
            .does("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
            .await;
        let held = soon("the lock", holder.acquire(NAME)).await;
        let held = match held {
            Ok(held) => held,
            Err(_) => soon("the lock", holder.acquire(NAME)).await.unwrap(),
        };
        assert!(held.release().await.is_released());
        server.wait_until_clean().await;
    });
}

pub(crate) fn each_right_missing() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        plain.does("CREATE ROLE app LOGIN").await;
        for (table, rights) in TABLES {
            plain
                .does(&format!("GRANT {} ON {table} TO app", rights.join(", ")))
                .await;
        }
        for (table, rights) in TABLES {
            for right in rights {
                plain
                    .does(&format!("REVOKE {right} ON {table} FROM app"))
                    .await;
                let error = PostgresTable::open(&as_app(&server)).await.unwrap_err();
                let words = format!("lacks the right to {right} on \"public\".\"{table}\"");
                assert_error(&error, ErrorKind::Unusable, Effect::None, &words);
                assert!(error.to_string().contains("GRANT"), "{error}");
                plain
                    .does(&format!("GRANT {right} ON {table} TO app"))
                    .await;
            }
        }
        // If the right is revoked later, the request reports it.
        let store = PostgresTable::open(&as_app(&server)).await.unwrap();
        plain.does("REVOKE UPDATE ON shedlock FROM app").await;
        let error = store.try_acquire(&claim(LONG)).await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "may not");
    });
}
