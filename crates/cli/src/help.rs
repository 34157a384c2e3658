//! Which help text a command line asks for, and the texts of the overview, the trials, `run-all` and `check`.

use std::collections::BTreeSet;

use fencepost::stores::KINDS;
use fencepost_trial::holds::Scenario;
use fencepost_trial::store::private_name;
use fencepost_trial::strategy::{self, Stores};

use crate::exit;
use crate::holds::TRIALS;
use crate::values::{CONCURRENCY, STOCK};

#[cfg(test)]
mod agreement;
mod doctor;
mod serve;
mod stores;
mod used;

use doctor::{DOCTOR, DOCTOR_EXAMPLES};
use serve::{SERVE, SERVE_EXAMPLES};
use stores::{INDENT, every_trial, lock_server_names, lock_servers, with_servers};
use used::{EXEC, EXEC_EXAMPLES, LOCKS, LOCKS_EXAMPLES};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commands that try locks, with one line of description each.
pub(crate) const COMMANDS: [(&str, &str); 8] = [
    (
        "oversell",
        "many buyers at once: is more sold than there is?",
    ),
    (
        "deadlock",
        "two locks in opposite order: what ends it, and at what price?",
    ),
    (
        "crash",
        "the holder is killed, or works longer than its lease",
    ),
    (
        "trial",
        "one scenario by name: a late release, a store that fails, …",
    ),
    (
        "retry",
        "what waiting costs: fixed, exponential, jitter, a waiting line",
    ),
    (
        "run-all",
        "seven scenarios, every strategy that fits, one matrix",
    ),
    (
        "gauntlet",
        "one lock, ours or yours, in every scenario that applies",
    ),
    ("check", "judge a saved history again, offline"),
];

/// The commands that use locks, with one line of description each.
pub(crate) const USE: [(&str, &str); 4] = [
    ("exec", "run a command while holding a lock"),
    ("locks", "list, show or release locks"),
    ("doctor", "what endangers locks in a store"),
    (
        "serve",
        "a checkout over HTTP; --lab adds trials and a shop for load tests",
    ),
];

/// The help text that the command line asks for: with no arguments, with `help`, `-h` or `--help`. `None` if it does not ask for help.
pub(crate) fn requested(words: &[String]) -> Option<String> {
    let Some(first) = words.first() else {
        return Some(map());
    };
    let asks = |word: &String| word == "-h" || word == "--help";
    let long = first == "help" || words.iter().any(|word| word == "--help");
    if first != "help" && !words.iter().any(asks) {
        return None;
    }
    let topic = words
        .iter()
        .find(|word| !word.starts_with('-') && *word != "help");
    let (text, examples) = match topic.map(String::as_str) {
        Some("oversell") => (oversell(), OVERSELL_EXAMPLES),
        Some("retry") => (retry(), RETRY_EXAMPLES),
        Some("deadlock") => (holds(DEADLOCK, &ttl(Scenario::Deadlock)), DEADLOCK_EXAMPLES),
        Some("crash") => (holds(CRASH, &ttl(Scenario::Crash)), CRASH_EXAMPLES),
        Some("trial") => (holds(TRIAL, &ttls()), TRIAL_EXAMPLES),
        Some("check") => (CHECK.to_owned(), CHECK_EXAMPLES),
        Some("run-all") => (RUN_ALL.to_owned() + &every_trial(), RUN_ALL_EXAMPLES),
        Some("gauntlet") => (gauntlet(), GAUNTLET_EXAMPLES),
        Some("exec") => (with_servers(EXEC), EXEC_EXAMPLES),
        Some("locks") => (with_servers(LOCKS), LOCKS_EXAMPLES),
        Some("doctor") => (with_servers(DOCTOR), DOCTOR_EXAMPLES),
        Some("serve" | "http-server") => (SERVE.to_owned(), SERVE_EXAMPLES),
        None => (overview(), ""),
        // The parser reports the unknown command.
        Some(_) => return None,
    };
    Some(if long { text + examples } else { text })
}

fn map() -> String {
    let names = COMMANDS.map(|(name, _)| name).join("   ");
    let used = USE.map(|(name, _)| name).join("   ");
    format!(
        "\
fencepost {VERSION}   distributed locks you can put on trial

  Three to try first. They need no server, end in seconds, and leave nothing behind.
    fencepost oversell --lock=none      50 buyers, 1 unit, no lock: see it go wrong
    fencepost oversell --lock=safe      the same race with a lock
    fencepost crash --ttl-edge          the same lock, when the work takes too long

  try locks    {names}
  use locks    {used}
  fencepost COMMAND --help for flags and examples; fencepost run-all for everything in one matrix
"
    )
}

fn overview() -> String {
    let mut commands = String::new();
    for (group, members) in [("Try locks", &COMMANDS[..]), ("Use locks", &USE[..])] {
        for (index, (name, what)) in members.iter().enumerate() {
            let heading = if index == 0 { group } else { "" };
            commands.push_str(&format!("{heading:<12} {name:<10} {what}\n"));
        }
    }
    format!(
        "\
Distributed locks you can put on trial: real processes, real faults, a verdict with evidence.
Usage: fencepost COMMAND [OPTIONS]

{commands}
Options of trials
  --store STORE   sqlite   a file, one machine, nothing to install [default; FENCEPOST_STORE]
                  redis    a private server that this program starts and stops
                  redis://HOST   a server that you run
                  built with --features full, also private servers or yours by address:
                  postgres   postgres://USER@HOST/DATABASE   with its own locks
                  {}
                  (they store the locks; the stock is in a file)
  --json          one JSON document on stdout instead of the report
  -q, --quiet     results only        --color auto|always|never        --ascii        -h   -V
Exit codes
{}",
        lock_servers(),
        exit::LEGEND
    )
}

fn oversell() -> String {
    let (strategies, servers) = (strategy::ALL.len(), lock_server_names());
    let (stock, concurrency) = ranges();
    let every_trial = every_trial();
    format!(
        "\
Many processes buy from one stock at once. BROKEN: oversold, or stock and orders disagree.
Usage: fencepost oversell [OPTIONS]

  --lock NAME         strategy; --lock help lists all {strategies}                [default: none]
                      {servers}: the library's lock on such servers
                      or your own program: --lock='python3 my_lock.py' (docs/your-lock-on-trial.md)
  --all               every strategy, side by side
  --stock N           {stock:<48}[default: 1]
  --concurrency N     {concurrency:<48}[default: 50]
  --delay µs          work between reading and writing the stock      [default: 5000]
  --wait MS           wait this long for the lock; 0 = one attempt    [default: 0]
  --seed N            repeats the lab's choices, not the OS's timing  [default: random, printed]
  --output FILE.json  the report as JSON      --history FILE.jsonl  every event, for `check`
  --report FILE.html  one page, time axis     --trace FILE          for Perfetto
{every_trial}"
    )
}

/// The descriptions of `--stock` and `--concurrency`.
fn ranges() -> (String, String) {
    (
        format!("units at the start, {STOCK}"),
        format!("processes, {CONCURRENCY}"),
    )
}

const OVERSELL_EXAMPLES: &str = "\
Examples
  fencepost oversell --lock=none --stock=1 --concurrency=10     see the race
  fencepost oversell --lock=safe --wait 20000 --stock=50        sell all of it, exactly
  fencepost oversell --all --json | jq -r '.runs[] | .strategy + \" \" + .verdict.outcome'
";

fn retry() -> String {
    let (stock, concurrency) = ranges();
    let every_trial = every_trial();
    format!(
        "\
Many processes wait for one lock in four ways. Compares what each way costs.
Usage: fencepost retry [OPTIONS]

  --lock NAME         strategy; --lock help lists all                 [default: safe]
  --stock N           {stock:<48}[default: 10]
  --concurrency N     {concurrency:<48}[default: 20]
  --delay µs          work between reading and writing the stock      [default: 5000]
  --max-retries N     retries before a process gives up               [default: 15]
  --ttl MS            length of a lease                               [default: 2000]
  --budget MS         total time before a process gives up            [default: 60000]
  --seed N            repeats the lab's choices, not the OS's timing  [default: random, printed]
  --output FILE.json  the report as JSON      --history FILE.jsonl  every event, for `check`
  --report FILE.html  one page, time axis     --trace FILE          for Perfetto
  -v, --verbose       print every attempt
{every_trial}"
    )
}

const RETRY_EXAMPLES: &str = "\
Examples
  fencepost retry
  fencepost retry --concurrency=50 --stock=50 --budget 8000
  fencepost retry --json | jq -r '.runs[] | .schedule.name + \" \" + (.duration_ms|tostring)'
";

/// The help of a lock trial: `words` come first, then the options that all of them share.
fn holds(words: &str, ttl: &str) -> String {
    let names = |is_meant: &dyn Fn(Stores) -> bool| {
        let able = strategy::ALL.iter().filter(|able| able.lock.is_some());
        let meant = able.filter(|able| is_meant(able.stores));
        let names: Vec<&str> = meant.map(|able| able.name).collect();
        names.join(" ")
    };
    let everywhere = names(&|stores| !matches!(stores, Stores::Only(_)));
    let mut elsewhere = String::new();
    for kind in KINDS {
        let own = names(&|stores| stores == Stores::Only(kind));
        if !own.is_empty() {
            let store = private_name(kind);
            elsewhere.push_str(&format!("{:INDENT$}with --store {store} also {own}\n", ""));
        }
    }
    let (servers, every_trial) = (lock_server_names(), every_trial());
    format!(
        "\
{words}\
\x20 --lock NAME         the strategy                                    [default: safe]
                      {everywhere}
{elsewhere}                      {servers}: the library's lock on such servers, renewed
                      or your own program: --lock='python3 my_lock.py' (docs/your-lock-on-trial.md)
  --ttl MS            how long a lock lasts without being renewed     [default: {ttl}]
  --seed N            repeats the lab's choices, not the OS's timing  [default: random, printed]
  --output FILE.json  the report as JSON      --history FILE.jsonl  every event, for `check`
  --report FILE.html  one page, time axis     --trace FILE          for Perfetto
{every_trial}"
    )
}

fn ttl(scenario: Scenario) -> String {
    scenario.ttl_ms().to_string()
}

/// The default TTLs of all scenarios that run by name.
fn ttls() -> String {
    let all: BTreeSet<u64> = TRIALS.map(Scenario::ttl_ms).into();
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    all.join(" or ")
}

const DEADLOCK: &str = "\
Two processes take two locks in opposite order, then each adds 1 to a number that the lab keeps.
Usage: fencepost deadlock [OPTIONS]

  --mitigate          both processes take the locks in the same order
";

const DEADLOCK_EXAMPLES: &str = "\
Examples
  fencepost deadlock                         the TTL ends it, and lets both in
  fencepost deadlock --mitigate              the same order: both finish
  fencepost deadlock --lock=watchdog         leases are renewed: nothing ends it
";

const CRASH: &str = "\
The holder is killed (SIGKILL). When can another process take its lock? STUCK: not within 3 × TTL.
Usage: fencepost crash [OPTIONS]

  --ttl-edge          no process is killed; the work takes longer than the lease
  --work MS           with --ttl-edge: how long the work takes        [default: 3000]
";

const CRASH_EXAMPLES: &str = "\
Examples
  fencepost crash                            recovery, measured against the TTL
  fencepost crash --lock=naive               killed between its two steps: locked forever
  fencepost crash --ttl-edge --lock=fenced   two believe, the resource refuses the stale one
  fencepost crash --lock=etcd                the library's lock on three private etcd servers
  fencepost crash --lock='python3 my_lock.py'   an external lock; with a manifest: --lock=./my-lock
";

const TRIAL: &str = "\
Runs one scenario by name.
Usage: fencepost trial NAME [OPTIONS]

  stale-release       A is paused beyond its lease, then releases: whose lock is released?
  short-stock         a purchase finds nothing to sell: does it release its lock?
  pause               A reads, is paused beyond its lease, then writes: over B's update?
  failover            the primary dies before its replica has the lock: does the replica let B in?
  restart-empty       the server dies and comes back without its data: does it let B in?
                      these two start and kill their own Redis servers (redis-server), with the
                      longer default TTL
                      built with --features full: failover also --store etcd, restart-empty also
                      --store redlock or 'redlock?restart_delay=10s' (no vote after a restart)
  lost-wakeup         A releases the lock just when B is about to wait for it: is B woken?
  cut                 A is cut off from its store beyond its lease, then writes: over B's update?
  slow-replies        A learns late that it has the lock: does it count its lease from there?
  lost-reply          a reply to A's request is lost: is that a grant, and is the lock free again?
                      these three need a store with a server; the default is --store redis
  storm               processes take turns at a few locks, and are killed, started again and paused
                      at random: is there ever a second holder, a falling fence, a stuck lock?

  --for TIME          storm: how long                                 [default: 60s]
  --processes N       storm: how many processes, up to 8              [default: 5]
  --names N           storm: how many locks, up to 6                  [default: 3]
  --runs N            storm: how often, with N seeds; says how often it convicted
                      a conviction is also saved as the shortest beginning of its history that
                      convicts: --history run.jsonl, and run.prefix.jsonl beside it

";

const TRIAL_EXAMPLES: &str = "\
Examples
  fencepost trial stale-release --lock=blind-delete
  fencepost trial short-stock --lock=late-expiry
  fencepost trial pause --lock=fenced        the resource refuses the late write
  fencepost trial failover                   one lock, two holders: the replica never received it
  fencepost trial failover --lock=fenced     two believe, the resource refuses the older fence
  fencepost trial failover --store etcd      the leader dies, and the lock survives
  fencepost trial restart-empty --lock=watchdog --report page.html
  fencepost trial restart-empty --store redlock      one of three forgets: two holders
  fencepost trial lost-wakeup --lock=late-watch --store zk      sleeps forever
  fencepost trial cut --lock=watchdog        stops itself when its lease is over
  fencepost trial lost-reply --lock=naive    its key stays without an expiry
  fencepost trial storm --lock=fenced --for 20s      no update is lost, whatever happens
  fencepost trial storm --lock=blind-delete --for 10s --runs 5 --history run.jsonl
";

const CHECK: &str = "\
Judges a saved history again, from the file that --history wrote. The exit code is the verdict's.
Usage: fencepost check FILE [OPTIONS]

  --json   -q, --quiet   --color auto|always|never   --ascii
";

const CHECK_EXAMPLES: &str = "\
Examples
  fencepost crash --ttl-edge --history run.jsonl; fencepost check run.jsonl
  fencepost check run.jsonl --json | jq .verdict.checks
";

const RUN_ALL: &str = "\
Seven scenarios with every strategy that fits, one matrix. Exit 0: every cell is as expected.
Usage: fencepost run-all [OPTIONS]

  Not in it are pause, lost-wakeup, cut, slow-replies, lost-reply, storm, failover and
  restart-empty: fencepost trial NAME

  --output DIR        one JSON report and one history for each trial, and one report.html for all
  --seed N            repeats the lab's choices, not the OS's timing  [default: random, printed]
";

const RUN_ALL_EXAMPLES: &str = "\
Examples
  fencepost run-all
  fencepost run-all --output results --seed 7041
";

fn gauntlet() -> String {
    let (servers, every_trial) = (lock_server_names(), every_trial());
    format!(
        "\
One lock in every scenario that applies to it and its store. The exit code is the worst verdict's.
Usage: fencepost gauntlet [OPTIONS]

  --lock NAME         the strategy; --lock help lists all             [default: safe]
                      {servers}: the library's lock on such servers, renewed
                      or your own program: --lock='python3 my_lock.py' (docs/your-lock-on-trial.md)
  --scenario NAME     only this one; may be given several times
  --list              the scenarios, with what is tried on this store and what is not
  --ladder            the same for naive, safe, watchdog and fenced, side by side
  --runs N            every scenario N times; the worst run counts    [default: 1]
  --jobs N            lock trials at the same time; sales run alone   [default: 2]
  --ttl MS            how long a lock lasts without being renewed     [default: 500]
                      where servers fail, it is 10000; etcd and zk need 2000 or more
  --seed N            repeats the lab's choices, not the OS's timing  [default: random, printed]
  --output DIR        one JSON report and one history for each trial
  --report FILE.html  one page with the worst run of each scenario
{every_trial}"
    )
}

const GAUNTLET_EXAMPLES: &str = "\
Examples
  fencepost gauntlet                         a token and a TTL, on SQLite, in seconds
  fencepost gauntlet --lock=fenced --store redis --report page.html
  fencepost gauntlet --lock=./subjects/lease --runs 3 --output results
  fencepost gauntlet --lock=watchdog --scenario pause --scenario ttl-edge
  fencepost gauntlet --lock=./subjects/lease --ladder --scenario pause --report page.html
";

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Option<String> {
        requested(
            &line
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn help_is_found_wherever_it_is_asked_for() {
        assert!(asked("").unwrap().starts_with("fencepost 0."));
        assert!(
            asked("--help")
                .unwrap()
                .contains("Usage: fencepost COMMAND")
        );
        assert_eq!(asked("help oversell"), asked("oversell --stock 3 --help"));
        assert_eq!(asked("oversell --stock 3"), None);
        assert_eq!(
            asked("oversel --help"),
            None,
            "a misspelt command is told so"
        );
    }

    #[test]
    fn short_help_is_the_same_without_examples() {
        let (short, long) = (
            asked("oversell -h").unwrap(),
            asked("oversell --help").unwrap(),
        );
        assert!(
            long.starts_with(&short) && long.contains("Examples") && !short.contains("Examples")
        );
    }

    #[test]
    fn help_fits_the_screen() {
        let all = COMMANDS.iter().chain(&USE);
        let all: Vec<_> = all.map(|(name, _)| format!("{name} --help")).collect();
        let all = ["", "--help"]
            .into_iter()
            .chain(all.iter().map(String::as_str));
        for text in all.map(|line| asked(line).unwrap()) {
            assert!(
                text.lines().all(|line| line.chars().count() <= 100),
                "{text}"
            );
        }
        assert!(
            crate::contender::strategies()
                .lines()
                .all(|line| line.chars().count() <= 100)
        );
    }
}
