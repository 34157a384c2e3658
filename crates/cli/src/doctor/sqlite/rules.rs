//! The rules for an SQLite file that stores locks.

use fencepost_trial::text::numbers::decimal;

use super::super::finding::Harm;
use super::super::rules::{self, Check, no_figures};
use super::Readings;

/// Less free space than this is a caution.
const LITTLE_ROOM: u64 = 64 * 1024 * 1024;
/// The file format version of a file with a write-ahead log.
const WAL: u8 = 2;

type Rule = rules::Rule<Readings>;

pub(in super::super) const CHECKS: &[Check<Readings>] = &[
    Check {
        topic: "file system",
        reads: "`statfs` of the directory",
        rules: &[
            Rule::danger(Harm::NoLocks, "a network file system: the library refuses the file")
                .finds(|file| Some(format!("the file is on {}", file.network?)))
                .means("Locks between processes are not reliable there: Fencepost refuses such a file.")
                .advise("use a local disk, or, for several machines, a store with a server"),
            Rule::caution(Harm::Hampered, "the file is in memory (`tmpfs`) and is lost when the machine restarts")
                .when(|file| file.is_in_memory)
                .say("the file is in memory (tmpfs) and is lost when the machine restarts")
                .means("After a restart, fences continue from the clock. If the clock was set back, resources refuse new holders until it catches up.")
                .advise("use a directory on a disk"),
            Rule::fine().say("local file system"),
        ],
        figures: |file| file.network.map(|kind| ("kind", kind.into())).into_iter().collect(),
    },
    Check {
        topic: "journal",
        reads: "the first hundred bytes of the file",
        rules: &[
            Rule::caution(Harm::Hampered, "no write-ahead log: another program created or changed the file")
                .when(|file| file.journal.is_some_and(|journal| journal != WAL))
                .say("no write-ahead log: another program created or changed this file")
                .means("Readers and writers block each other until the first use turns it on.")
                .advise("use a separate file for locks"),
            Rule::fine().when(|file| file.journal.is_some()).say("write-ahead log"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "rights",
        reads: "`access` and the mode of the file",
        rules: &[
            Rule::danger(Harm::NoLocks, "this user may not write the file or its directory")
                .finds(|file| Some(format!("this user may not write {}", file.locked.as_ref()?.display())))
                .means("SQLite writes the file and two others beside it: no lock can be taken.")
                .advise("grant write access to the file and its directory, or use another path"),
            Rule::caution(Harm::Vanishes, "everybody on this machine may write the file")
                .when(|file| file.everybody_may_write)
                .say("everybody on this machine may write the file")
                .means("Whoever can write it can release any lock.")
                .advise("create a group for the users that share the locks, and chmod o-w the file"),
            Rule::fine().say("rights to write"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "disk",
        reads: "`statvfs` of the directory",
        rules: &[
            Rule::unknown()
                .when(|file| file.free_bytes.is_none())
                .say("the system does not report how much space is free"),
            Rule::caution(Harm::Hampered, "less than 64 MiB free: when the disk is full, no lock can be taken or renewed")
                .finds(|file| {
                    let free = file.free_bytes.filter(|free| *free < LITTLE_ROOM)?;
                    Some(format!("{} MiB free", decimal(free as f64 / 1_048_576.0)))
                })
                .means("When the disk is full, no lock can be taken or renewed.")
                .advise("free space on this disk"),
            Rule::fine().finds(|file| {
                let gibibytes = file.free_bytes? as f64 / 1_073_741_824.0;
                Some(format!("{} GiB free", decimal(gibibytes)))
            }),
        ],
        figures: |file| file.free_bytes.map(|free| ("free_bytes", free.into())).into_iter().collect(),
    },
];
