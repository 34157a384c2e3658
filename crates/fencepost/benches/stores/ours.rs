//! Our own lock on the store of an address, in this process or in a child process.

use std::io::{BufRead, Write};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fencepost::{Guard, LockName, Locker};

use crate::lock::{Here, Lock, NAMES};
use crate::native::{Advisory, EtcdLock};
use crate::player::Player;
use crate::runtime;

/// The environment variable that tells a child what to play with, and the address of the store.
const CHILD: &str = "FENCEPOST_BENCH_CHILD";

#[derive(Clone)]
pub(crate) struct Ours {
    locker: Locker,
    names: Arc<Vec<LockName>>,
}

impl Ours {
    pub(crate) async fn open(address: &str) -> Self {
        let store = fencepost::stores::open(address).await.expect("a store");
        let name = |number| LockName::new(&format!("bench-{number}")).expect("a good name");
        Self {
            locker: Locker::new(store),
            names: Arc::new((0..NAMES).map(name).collect()),
        }
    }
}

impl Lock for Ours {
    type Held = Guard;

    async fn lock(&self, _: usize, name: usize) -> Guard {
        let name = &self.names[name];
        self.locker.acquire(name).await.expect("the lock")
    }

    async fn unlock(&self, held: Guard) {
        assert!(held.release().await.is_released());
    }

    async fn let_go(&self, held: Guard) {
        drop(held);
    }
}

/// Starts a process that takes turns: `ours`, `advisory` or `etcd`.
pub(crate) fn player(kind: &str, address: &str) -> Player {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(CHILD, format!("{kind} {address}"));
    Player::start(&mut command).expect("a child")
}

/// Answers requests for turns until its input ends, if this process was started for that.
pub(crate) fn is_child() -> bool {
    let Ok(task) = std::env::var(CHILD) else {
        return false;
    };
    let (kind, address) = task.split_once(' ').expect("two words");
    let runtime = Rc::new(runtime());
    match kind {
        "ours" => {
            let lock = runtime.block_on(Ours::open(address));
            let locker = lock.locker.clone();
            answer(Here {
                runtime: runtime.clone(),
                lock,
            });
            runtime.block_on(locker.shutdown());
        }
        "advisory" => {
            let lock = runtime.block_on(Advisory::open(address, 1));
            answer(Here { runtime, lock });
        }
        "etcd" => {
            let lock = runtime.block_on(EtcdLock::open(address, 1));
            answer(Here { runtime, lock });
        }
        other => panic!("no such lock: {other}"),
    }
    true
}

fn answer<L: Lock>(here: Here<L>) {
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a request");
        let words: Vec<&str> = line.split(' ').collect();
        let &["turns", tasks, ms] = words.as_slice() else {
            panic!("no such request: {line}");
        };
        let time = Duration::from_millis(ms.parse().expect("a number"));
        let turns = here.turns_taken(tasks.parse().expect("a number"), time);
        let words: String = turns
            .iter()
            .map(|(at, who)| format!("{at} {who} "))
            .collect();
        println!("{words}");
        std::io::stdout().flush().expect("a reader");
    }
}
