//! The rules for a Postgres server that stores locks, either as advisory locks or as leases in a table.

use fencepost_trial::text::numbers::count;

use super::super::finding::Harm;
use super::super::rules::{self, Check, no_figures};
use super::readings::{Kind, Opened, Readings, Trial};

mod limits;
mod standbys;

use limits::{Room, room};
use standbys::Standbys;

type Rule = rules::Rule<Readings>;

pub(in super::super) const CHECKS: &[Check<Readings>] = &[
    Check {
        topic: "version",
        reads: "`server_version`",
        rules: &[
            Rule::danger(Harm::NoLocks, "older than 14")
                .when(|read| read.facts.is_old())
                .say_with(|read| format!("Postgres {} is too old: 14 or later is required", read.facts.version()))
                .means("It cannot end idle sessions, and leases depend on that.")
                .advise("upgrade the server; test it with a copy of the data first"),
            Rule::fine().say("version"),
        ],
        figures: |read| vec![("version", read.facts.version().into())],
    },
    Check {
        topic: "standby",
        reads: "`pg_is_in_recovery`",
        rules: &[
            Rule::danger(Harm::NoLocks, "the server is a standby, where no lock can be taken")
                .when(|read| is_asked(read) && read.facts.is_standby())
                .say("this is a standby, which is read-only")
                .means("No lock can be taken here.")
                .advise("use the address of the primary, or name all hosts with target_session_attrs=read-write"),
            Rule::fine().when(is_asked).say("a primary"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "connections",
        reads: "`pg_stat_database`, `pg_roles`, `pg_database`",
        rules: &[
            Rule::unknown()
                .when(|read| is_asked(read) && room(read).is_none())
                .say("the server does not report how many are left"),
            Rule::caution(Harm::Hampered, "*advisory*: fewer than 8 are left under the limit of the server, the user or the database; *table*: none is left")
                .when(is_asked)
                .finds(|read| room(read).filter(|room| !room.is_enough(read.kind)).map(|room| room.said()))
                .means_with(|read| {
                    match read.kind {
                        Kind::Advisory => {
                            "A process opens up to 8, one for each name that it holds or waits for. When none is left, no lock can be taken."
                        }
                        Kind::Table => "A process needs one. When none is left, no lock can be taken or renewed.",
                    }
                    .to_owned()
                })
                .advise("close connections that nobody needs, or raise the limit"),
            Rule::fine().when(is_asked).finds(|read| room(read).map(|room| room.said())),
        ],
        figures: |read| {
            let figures = |room: Room| vec![("left", room.left.into()), ("limit", room.limit.into())];
            room(read).map_or_else(Vec::new, figures)
        },
    },
    Check {
        topic: "rights",
        reads: "`has_function_privilege`",
        rules: &[
            Rule::danger(Harm::NoLocks, "*advisory*: the user may not call the functions that locks and fences need")
                .when(|read| is_advisory(read) && !read.facts.get("denied").is_empty())
                .say_with(|read| format!("user {} may not call {}", read.facts.user(), read.facts.get("denied")))
                .means("Locks and fences need these functions: no lock can be taken.")
                .advise_with(|read| {
                    let (denied, user) = (read.facts.get("denied"), read.facts.user());
                    format!("GRANT EXECUTE ON FUNCTION {denied} TO {user}")
                }),
            Rule::fine().when(is_advisory).say("rights"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "names",
        reads: "`track_activities`, `track_activity_query_size`",
        // `locks list` and `locks show` read the names from the queries that Postgres tracks for each session.
        rules: &[
            Rule::caution(Harm::Hampered, "*advisory*: `track_activities` is off, or `track_activity_query_size` is below 1024: `fencepost locks` shows numbers")
                .when(is_advisory)
                .finds(limits::untracked)
                .means("Locks still exclude, but `fencepost locks` shows numbers in place of names.")
                .advise("set track_activities = on and track_activity_query_size = 1024 or more"),
            Rule::fine().when(is_advisory).say("names of locks are shown"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "time limits",
        reads: "`statement_timeout`, `idle_session_timeout`",
        rules: &[
            // The role's limits do not apply to locks, but people look for them here.
            Rule::fine().when(is_advisory).finds(|read| {
                let set = limits::set(&read.facts).join(", ");
                let is_set = !set.is_empty();
                is_set.then(|| format!("{set}: does not apply to the sessions of locks, which set their own limits"))
            }),
        ],
        figures: no_figures,
    },
    Check {
        topic: "read-only",
        reads: "`transaction_read_only`",
        rules: &[
            Rule::danger(Harm::NoLocks, "*table*: `default_transaction_read_only`")
                .when(|read| is_table(read) && read.facts.is_read_only() && !read.facts.is_standby())
                .say("transactions here are read-only (default_transaction_read_only)")
                .means("Taking a lock writes a row: no lock can be taken.")
                .advise_with(|read| {
                    let user = read.facts.user();
                    format!("ALTER ROLE {user} SET default_transaction_read_only = off, or use another user")
                }),
        ],
        figures: no_figures,
    },
    Check {
        topic: "time limits",
        reads: "`statement_timeout`, `idle_session_timeout`",
        rules: &[
            Rule::caution(Harm::Hampered, "*table*: `statement_timeout` below a second")
                .when(is_table)
                .finds(|read| limits::short_statements(read).map(|ms| format!("statement_timeout is {} ms", count(ms))))
                .means("On a busy server a grant or a renewal can time out, and a lease can end while its holder is alive.")
                .advise_with(|read| format!("ALTER ROLE {} SET statement_timeout = '5s'", read.facts.user())),
        ],
        figures: |read| {
            let limit = limits::short_statements(read).map(|ms| ("limit_ms", ms.into()));
            limit.into_iter().collect()
        },
    },
    Check {
        topic: "idle sessions",
        reads: "`idle_session_timeout`",
        rules: &[
            Rule::caution(Harm::Hampered, "*table*: `idle_session_timeout` is set")
                .when(is_table)
                .finds(|read| limits::idle(read).map(|ms| format!("idle_session_timeout is {} ms", count(ms))))
                .means("The server closes idle connections. A waiter hears of a release only after it has reconnected.")
                .advise_with(|read| format!("ALTER ROLE {} SET idle_session_timeout = 0", read.facts.user())),
        ],
        figures: |read| {
            let limit = limits::idle(read).map(|ms| ("limit_ms", ms.into()));
            limit.into_iter().collect()
        },
    },
    Check {
        topic: "time limits",
        reads: "`statement_timeout`, `idle_session_timeout`",
        rules: &[
            Rule::fine()
                .when(|read| is_table(read) && limits::short_statements(read).is_none() && limits::idle(read).is_none())
                .say("no time limits"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "persistence",
        reads: "`fsync`, `full_page_writes`",
        rules: &[
            Rule::caution(Harm::FenceFalls, "*advisory*: `fsync` or `full_page_writes` is off: a power cut can undo fences")
                .when(is_advisory)
                .finds(unsafe_writes)
                .means("A power cut can undo fences that were already given out: the fence can fall, and a resource then refuses new holders or accepts a stale one.")
                .advise("fsync = on and full_page_writes = on, then pg_ctl reload"),
            Rule::caution(Harm::Forgotten, "*table*: `fsync` or `full_page_writes` is off: a power cut can undo grants")
                .when(is_table)
                .finds(unsafe_writes)
                .means("A power cut can undo grants or corrupt the database: a lock that is held can be granted again.")
                .advise("fsync = on and full_page_writes = on, then pg_ctl reload"),
            Rule::fine().when(is_asked).say("writes reach the disk (fsync)"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "standbys",
        reads: "`synchronous_standby_names`, `synchronous_commit`, `pg_stat_replication`",
        rules: &[
            Rule::danger(Harm::NoLocks, "synchronous standbys are configured, but none is connected: every grant hangs")
                .when(is_primary)
                .finds(|read| Standbys::of(read).absent())
                .means("Every commit waits for one, so every grant hangs.")
                .advise("start the standby, or set synchronous_standby_names = '' and reload"),
            Rule::fine()
                .when(|read| is_primary(read) && Standbys::of(read).count == 0)
                .say("no standby"),
            Rule::unknown().when(is_primary).finds(|read| Standbys::of(read).unseen()),
            Rule::danger(Harm::NoLocks, "too few of the configured synchronous standbys are connected: every grant hangs")
                .when(is_primary)
                .finds(|read| Standbys::of(read).too_few())
                .means_with(|read| {
                    let needed = Standbys::of(read).needed();
                    format!("Every commit waits for {needed}, so every grant hangs.")
                })
                .advise("start the configured standby, or correct synchronous_standby_names and reload"),
            Rule::caution(
                Harm::Forgotten,
                "more standbys can confirm a commit than are needed: after a promotion, an old primary that is still running may go on granting locks",
            )
            .when(is_primary)
            .finds(|read| Standbys::of(read).more_than_needed())
            .means_with(|read| {
                match read.kind {
                    Kind::Advisory => {
                        "If one is promoted while the old primary is still running, another may still confirm the old primary's commits. Then both grant and renew locks, and the fences of the old primary can be larger."
                    }
                    Kind::Table => {
                        "If one is promoted while the old primary is still running, another may still confirm the old primary's commits. Then both grant locks."
                    }
                }
                .to_owned()
            })
            .advise_with(|read| Standbys::of(read).wait_for_all()),
            Rule::fine().when(is_primary).finds(|read| Standbys::of(read).synchronous()),
            Rule::caution(
                Harm::Forgotten,
                "there are asynchronous standbys: a promotion forgets grants (*table*), or does not notify holders on an old primary that is still running (*advisory*)",
            )
            .when(is_primary)
            .finds(|read| Some(Standbys::of(read).asynchronous()))
            .means_with(|read| {
                match read.kind {
                    Kind::Advisory => {
                        "A promotion frees every lock. Holders are notified, unless the old primary is still running: then two clients hold a lock, and the later one has the larger fence."
                    }
                    Kind::Table => "A promotion can forget a lock that was granted just before it: then two clients hold the lock.",
                }
                .to_owned()
            })
            .advise("fence the resource; or set synchronous_standby_names with more than one standby (with a single one, its loss stops all writes)"),
        ],
        figures: |read| vec![("replicas", Standbys::of(read).count.into())],
    },
    Check {
        topic: "restart",
        reads: "nothing: always reported",
        // Not a defect of the server, since holders are notified. But whoever plans a restart should know.
        rules: &[
            Rule::fine()
                .when(|read| is_primary(read) && is_advisory(read))
                .say("every restart of the server frees the advisory locks, and their holders are notified")
                .means("Work that must survive a restart needs leases in a table (?table=shedlock)."),
        ],
        figures: no_figures,
    },
    Check {
        topic: "connections",
        reads: "a second connection",
        rules: &[
            Rule::danger(Harm::NoLocks, "a second connection cannot be opened")
                .finds(|read| match &read.trial {
                    Some(Trial::NoSecond(why)) => Some(format!("no second connection: {why}")),
                    _ => None,
                })
                .means("Each lock needs its own session: no lock can be taken.")
                .advise("close connections that nobody needs, or raise max_connections (needs a restart)"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "pooler",
        reads: "`pg_backend_pid` over two connections",
        rules: &[
            Rule::danger(Harm::NoLocks, "a pooler does not keep sessions (`pool_mode` transaction or statement)")
                .when(|read| matches!(read.trial, Some(Trial::Pooled)))
                .say("a pooler runs the statements of one connection in changing sessions (pool_mode = transaction or statement)")
                .means("A lock belongs to a session, and would be left behind in a session that somebody else uses.")
                .advise("use the address of the server itself, or a pool in session mode"),
            Rule::fine()
                .when(|read| matches!(read.trial, Some(Trial::ReadOnly | Trial::Opened(_))))
                .say("a session of its own"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "fence",
        reads: "the address",
        rules: &[
            Rule::caution(Harm::FenceFalls, "*advisory*: the address contains `fence=transaction-id`: a failover can repeat fences")
                .when(|read| opened(read).is_some() && read.takes_transaction_ids)
                .say("fences are transaction ids (fence=transaction-id)")
                .means("If a standby is promoted that has not received the last grants, it hands out the same fences again.")
                .advise("let the owner of the database create the sequences, and remove fence=transaction-id from all addresses"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "exclusion",
        reads: "an advisory lock that nobody else uses",
        rules: &[
            Rule::danger(
                Harm::NoLocks,
                "*advisory*: locks do not exclude; the sequences for fences are missing and the user may not create them, or the user may not use them; a program of an older version takes locks there",
            )
            .when(is_advisory)
            .finds(cannot_be_opened)
            .means("No lock can be taken here."),
            Rule::fine().when(is_advisory).finds(well_opened),
        ],
        figures: no_figures,
    },
    Check {
        topic: "table",
        reads: "the columns and rights of the table",
        rules: &[
            Rule::danger(
                Harm::NoLocks,
                "*table*: it is missing, is unlogged (a crash would empty it), or has the wrong columns or rights (the finding contains the statement that fixes it)",
            )
            .when(is_table)
            .finds(cannot_be_opened)
            .means("No lock can be taken here."),
            Rule::unknown().finds(|read| match opened(read) {
                Some(Opened::MadeWhenUsed(what)) => Some(what.clone()),
                _ => None,
            }),
            Rule::fine().when(is_table).finds(well_opened),
        ],
        figures: no_figures,
    },
];

/// Returns whether the server is recent enough to be asked for more than its version.
fn is_asked(read: &Readings) -> bool {
    !read.facts.is_old()
}

fn is_advisory(read: &Readings) -> bool {
    is_asked(read) && read.kind == Kind::Advisory
}

fn is_table(read: &Readings) -> bool {
    is_asked(read) && read.kind == Kind::Table
}

fn is_primary(read: &Readings) -> bool {
    is_asked(read) && !read.facts.is_standby()
}

fn unsafe_writes(read: &Readings) -> Option<String> {
    let names = ["fsync", "full_page_writes"].into_iter();
    let off: Vec<&str> = names.filter(|name| read.facts.get(name) == "off").collect();
    (!off.is_empty()).then(|| format!("{} off", off.join(" and ")))
}

fn opened(read: &Readings) -> Option<&Opened> {
    match &read.trial {
        Some(Trial::Opened(opened)) => Some(opened),
        _ => None,
    }
}

fn cannot_be_opened(read: &Readings) -> Option<String> {
    match opened(read) {
        Some(Opened::Badly(why)) => Some(why.clone()),
        _ => None,
    }
}

fn well_opened(read: &Readings) -> Option<String> {
    match opened(read) {
        Some(Opened::Well(said)) => Some(said.clone()),
        _ => None,
    }
}
