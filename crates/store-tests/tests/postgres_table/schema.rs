//! The tables of the lease table: missing, created by us, or created by somebody else.

use fencepost::stores::postgres_table::PostgresTable;
use fencepost::{Backend, Effect, ErrorKind};

use crate::support::{LONG, NAME, Plain, SOON, Server, assert_error, claim, run, soon};

/// The error contains the statements that fix it, and they do.
pub(crate) fn missing() {
    run(async {
        let server = Server::bare(&[]);
        let plain = server.plain().await;
        // One table after the other, so that each absence is noticed.
        for gone in ["", "shedlock", "shedlock_fence", "shedlock_line"] {
            if !gone.is_empty() {
                plain.does(&format!("DROP TABLE {gone}")).await;
            }
            let error = PostgresTable::open(&server.0.url()).await.unwrap_err();
            assert_error(
                &error,
                ErrorKind::Unusable,
                Effect::None,
                "say create=true in the address (in a program: create_table(true))",
            );
            let text = error.to_string();
            let statements = text.split_once("run: ").unwrap().1;
            plain.does(statements).await;
            PostgresTable::open(&server.0.url()).await.unwrap();
        }
    });
}

/// The address says whether to create them. The setting of the program takes precedence.
pub(crate) fn made_by_the_address() {
    run(async {
        let server = Server::bare(&[]);
        let plain = server.plain().await;
        let url = format!("{}?table=public.locks&create", server.0.url());
        for wrong in ["maybe", "", "TRUE", "1"] {
            let error = PostgresTable::open(&format!("{url}={wrong}")).await;
            let said = "create in the address is true or false";
            assert_error(
                &error.unwrap_err(),
                ErrorKind::InvalidInput,
                Effect::None,
                said,
            );
        }
        let (yes, no) = (format!("{url}=true"), format!("{url}=false"));
        for builder in [
            PostgresTable::builder(&no),
            PostgresTable::builder(&yes).create_table(false),
        ] {
            let error = builder.open().await.unwrap_err();
            assert_error(&error, ErrorKind::Unusable, Effect::None, "no table");
        }
        let made = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'locks%'";
        assert_eq!(plain.number(made).await, 0);
        for store in [
            fencepost::stores::open(&yes).await.unwrap(),
            fencepost::stores::open(&no).await.unwrap(),
        ] {
            let claim = claim(LONG);
            assert!(store.try_acquire(&claim).await.unwrap().is_some());
            store.release(&claim).await.unwrap();
        }
        assert_eq!(plain.number(made).await, 4);
        plain
            .does("DROP TABLE locks, locks_fence, locks_line, locks_record")
            .await;
        let builder = PostgresTable::builder(&no).create_table(true);
        assert_eq!(builder.open().await.unwrap().table(), "public.locks");
    });
}

/// A program that only looks, or only releases, creates no table, whatever the address says.
pub(crate) fn looks_make_no_table() {
    run(async {
        let server = Server::bare(&[]);
        let plain = server.plain().await;
        let address = format!("{}?table=locks&create=true", server.0.url());
        let address: fencepost::stores::StoreAddress = address.parse().unwrap();
        for opened in [
            address.open_read_only().await,
            address.open_to_release().await,
        ] {
            let error = opened.unwrap_err();
            assert_error(&error, ErrorKind::Unusable, Effect::None, "no table");
        }
        let made = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'locks%'";
        assert_eq!(plain.number(made).await, 0);
    });
}

/// Programs that start at the same time do not make each other fail.
pub(crate) fn made_by_many_at_once() {
    run(async {
        let server = Server::bare(&[]);
        for _ in 0..5 {
            let opening = (0..8).map(|_| {
                let builder = PostgresTable::builder(&server.0.url()).create_table(true);
                tokio::spawn(builder.connect_timeout(SOON).open())
            });
            for opened in opening.collect::<Vec<_>>() {
                soon("a store", opened).await.unwrap().unwrap();
            }
            let plain = server.plain().await;
            plain
                .does("DROP TABLE shedlock, shedlock_fence, shedlock_line, shedlock_record")
                .await;
        }
    });
}

/// Somebody who is creating the table in an open transaction is not waited for, neither by us nor by the programs behind us.
pub(crate) fn made_in_an_open_transaction() {
    run(async {
        let server = Server::bare(&[]);
        let plain = server.plain().await;
        plain
            .does("BEGIN; CREATE TABLE shedlock(name VARCHAR(64) PRIMARY KEY)")
            .await;
        let opening = (0..3).map(|_| {
            let builder = PostgresTable::builder(&server.0.url()).create_table(true);
            tokio::spawn(builder.connect_timeout(LONG).open())
        });
        for opened in opening.collect::<Vec<_>>() {
            let error = soon("an error", opened).await.unwrap().unwrap_err();
            assert!(error.to_string().contains("lock timeout"), "{error}");
        }
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        assert_eq!(plain.number(waiting).await, 0);
        plain.does("ROLLBACK").await;
    });
}

/// The table from ShedLock's own documentation for Postgres, which has microseconds.
pub(crate) fn of_shedlock_itself() {
    run(async {
        let server = Server::bare(&[]);
        let plain = server.plain().await;
        plain
            .does(
                "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL,
                 locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name));
                 INSERT INTO shedlock VALUES ('stock', timezone('utc', current_timestamp) - interval '1 hour',
                 timezone('utc', current_timestamp) - interval '2 hours', 'ip-10-0-0-7')",
            )
            .await;
        let builder = PostgresTable::builder(&server.0.url()).create_table(true);
        let store = builder.open().await.unwrap();
        let claim = claim(LONG);
        for _ in 0..2 {
            assert!(store.try_acquire(&claim).await.unwrap().is_some());
        }
        let record = store.inspect(&claim.name).await.unwrap().unwrap();
        assert_eq!(record.holder.unwrap().owner, Some(claim.owner));
        assert_eq!(plain.number("SELECT count(*) FROM shedlock").await, 1);
        store.release(&claim).await.unwrap();
        server.wait_until_clean().await;
    });
}

pub(crate) fn other_columns() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        let cases = [
            (
                "ALTER TABLE shedlock RENAME locked_by TO owner",
                "no column locked_by",
            ),
            (
                "ALTER TABLE shedlock ALTER lock_until TYPE timestamptz",
                "timestamp with time zone and must be timestamp(3)",
            ),
            (
                "ALTER TABLE shedlock ALTER locked_at TYPE timestamp(0)",
                "must be timestamp(3)",
            ),
            (
                "ALTER TABLE shedlock ALTER name TYPE varchar(40)",
                "must be varchar(64)",
            ),
            (
                "ALTER TABLE shedlock ALTER name TYPE char(64)",
                "must be varchar(64)",
            ),
            (
                "ALTER TABLE shedlock ALTER locked_by TYPE varchar(100)",
                "must be varchar(255)",
            ),
            (
                "ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey",
                "ADD PRIMARY KEY (name)",
            ),
            (
                "ALTER TABLE shedlock ADD region text NOT NULL",
                "further column region",
            ),
            (
                "ALTER TABLE shedlock SET UNLOGGED",
                r#"ALTER TABLE "public"."shedlock" SET LOGGED"#,
            ),
            (
                "ALTER TABLE shedlock_fence SET UNLOGGED",
                r#"ALTER TABLE "public"."shedlock_fence" SET LOGGED"#,
            ),
            ("ALTER TABLE shedlock_fence DROP epoch", "no column epoch"),
            ("ALTER TABLE shedlock_line DROP ticket", "no column ticket"),
        ];
        for (change, words) in cases {
            plain.does(change).await;
            let error = PostgresTable::open(&server.0.url()).await.unwrap_err();
            assert_error(&error, ErrorKind::Unusable, Effect::None, words);
            anew(&plain).await;
            PostgresTable::builder(&server.0.url())
                .create_table(true)
                .open()
                .await
                .unwrap();
        }
        // Columns that do no harm are left alone.
        plain
            .does("ALTER TABLE shedlock ADD note text, ADD region text NOT NULL DEFAULT 'eu', ALTER name TYPE text")
            .await;
        let store = server.store().await;
        assert!(store.try_acquire(&claim(LONG)).await.unwrap().is_some());
    });
}

async fn anew(plain: &Plain) {
    plain
        .does("DROP TABLE shedlock, shedlock_fence, shedlock_line")
        .await;
}

/// The table is in a separate schema under a name that needs quoting. A lock there is independent of one with the same name
/// elsewhere.
pub(crate) fn somewhere_else() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        plain.does("CREATE SCHEMA \"Shop\"").await;
        let url = format!("{}?table=Shop.our%20locks", server.0.url());
        let builder = PostgresTable::builder(&url).create_table(true);
        let there = builder.open().await.unwrap();
        assert_eq!(there.table(), "Shop.our locks");
        let here = server.store().await;
        assert_eq!(here.table(), "public.shedlock");
        let (one, other) = (claim(LONG), claim(LONG));
        assert!(there.try_acquire(&one).await.unwrap().is_some());
        assert!(here.try_acquire(&other).await.unwrap().is_some());
        let held = "SELECT count(*) FROM \"Shop\".\"our locks\" WHERE name = 'stock'";
        assert_eq!(plain.number(held).await, 1);
        let listed = there.list(Some("*")).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].name, NAME);
        let chosen = PostgresTable::builder(&url).table("shedlock").open().await;
        assert_eq!(chosen.unwrap().table(), "public.shedlock");
    });
}
