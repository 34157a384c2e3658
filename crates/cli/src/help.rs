//! Which help text a command line asks for, and the texts of the overview, the trials, `run-all` and `check`.

use fencepost::stores::KINDS;
use fencepost_trial::holds::Scenario;
use fencepost_trial::store::private_name;
use fencepost_trial::strategy::{self, Stores};

use crate::exit;
use crate::values::{CONCURRENCY, STOCK};

#[cfg(test)]
mod agreement;
mod lock_commands;
mod scenarios;
mod stores;
mod ttls;

use lock_commands::{
    DOCTOR, DOCTOR_EXAMPLES, ELECT, ELECT_EXAMPLES, EXEC, EXEC_EXAMPLES, LOCKS, LOCKS_EXAMPLES,
    ONCE, ONCE_EXAMPLES, SERVE, SERVE_EXAMPLES,
};
use scenarios::{TRIAL, TRIAL_EXAMPLES};
use stores::{INDENT, every_trial, lock_server_names, lock_servers, with_servers};
use ttls::{kept_ttls, ttl, ttls};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commands that try locks, with one line of description each.
pub(crate) const TRIAL_COMMANDS: [(&str, &str); 8] = [
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
        "seven scenarios, every strategy that fits, and ways of waiting",
    ),
    (
        "gauntlet",
        "one lock, ours or yours, in every scenario that applies",
    ),
    ("check", "judge a saved history again, offline"),
];

/// The line about times in the help of the trials that have flags for them.
const TIMES: &str = "\
\x20 MS, µs              a plain number, or a time with its unit: 500ms, 2s, 50us
";

/// The commands that use locks, with one line of description each.
pub(crate) const LOCK_COMMANDS: [(&str, &str); 6] = [
    ("exec", "run a command while holding a lock"),
    (
        "elect",
        "run a command on one machine of many, while it leads",
    ),
    ("once", "run a scheduled job on one machine of many"),
    ("locks", "list, show or release locks"),
    ("doctor", "what endangers locks in a store"),
    (
        "serve",
        "a checkout over HTTP; --lab adds trials and a shop for load tests",
    ),
];

/// Returns the help text that the command line asks for: with no arguments, with `help`, `-h` or `--help`. `None` if it does not ask for
/// help.
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
        Some("trial") => (trial(), TRIAL_EXAMPLES),
        Some("check") => (CHECK.to_owned(), CHECK_EXAMPLES),
        Some("run-all") => (RUN_ALL.to_owned() + &every_trial(), RUN_ALL_EXAMPLES),
        Some("gauntlet") => (gauntlet(), GAUNTLET_EXAMPLES),
        Some("exec") => (with_servers(EXEC), EXEC_EXAMPLES),
        Some("once") => (with_servers(ONCE), ONCE_EXAMPLES),
        Some("elect") => (with_servers(ELECT), ELECT_EXAMPLES),
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
    let names = TRIAL_COMMANDS.map(|(name, _)| name).join("   ");
    let lock_commands = LOCK_COMMANDS.map(|(name, _)| name).join("   ");
    format!(
        "\
fencepost {VERSION}   distributed locks you can put on trial

  Three to try first. They need no server, end in seconds, and leave nothing behind.
    fencepost oversell --lock=none      50 buyers, 1 unit, no lock: see it go wrong
    fencepost oversell --lock=safe      the same race with a lock
    fencepost crash --ttl-edge          the same lock, when the work takes too long

  try locks    {names}
  use locks    {lock_commands}
  fencepost COMMAND --help for flags and examples; fencepost run-all: seven scenarios in one matrix
"
    )
}

fn overview() -> String {
    let mut commands = String::new();
    for (group, members) in [
        ("Try locks", &TRIAL_COMMANDS[..]),
        ("Use locks", &LOCK_COMMANDS[..]),
    ] {
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
  --store STORE   sqlite   a file, one machine, nothing to install [default; FENCEPOST_TRIAL_STORE]
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
{TIMES}{every_trial}"
    )
}

/// Returns the descriptions of `--stock` and `--concurrency`.
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
  --budget MS         total time before a process gives up            [default: 10000]
  --seed N            repeats the lab's choices, not the OS's timing  [default: random, printed]
  --output FILE.json  the report as JSON      --history FILE.jsonl  every event, for `check`
  --report FILE.html  one page, time axis     --trace FILE          for Perfetto
  -v, --verbose       print every attempt
{TIMES}{every_trial}"
    )
}

const RETRY_EXAMPLES: &str = "\
Examples
  fencepost retry
  fencepost retry --concurrency=50 --stock=50 --budget 8000
  fencepost retry --json | jq -r '.runs[] | .schedule.name + \" \" + (.duration_ms|tostring)'
";

/// Returns the help of a lock trial: `words` come first, then the options that all of them share.
/// The headings of the trials say which store they use without `--store`.
fn trial() -> String {
    holds(TRIAL, &ttls()).replace("[default: sqlite]", "[default: as above]")
}

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
{TIMES}{every_trial}"
    )
}

const DEADLOCK: &str = "\
Two processes take two locks in opposite order, then each adds 1 to a number that the lab keeps.
Usage: fencepost deadlock [OPTIONS]

  --sorted            both processes take the locks in the same order
";

const DEADLOCK_EXAMPLES: &str = "\
Examples
  fencepost deadlock                         the TTL ends it, and both get both locks
  fencepost deadlock --sorted                the same order: both finish
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

const CHECK: &str = "\
Judges a saved history again, from the file that --history wrote. The exit code is the verdict's.
Usage: fencepost check FILE [OPTIONS]

  --report FILE.html  one page, time axis     --trace FILE          for Perfetto
  --json   -q, --quiet   --color auto|always|never   --ascii
";

const CHECK_EXAMPLES: &str = "\
Examples
  fencepost crash --ttl-edge --history run.jsonl; fencepost check run.jsonl
  fencepost check run.jsonl --json | jq .verdict.checks
  fencepost check run.jsonl --report run.html   draws a run that was recorded earlier, or elsewhere
";

const RUN_ALL: &str = "\
Seven scenarios with every strategy that fits, and the ways of waiting of retry, in one matrix.
Exit 0: every cell is as expected.
Usage: fencepost run-all [OPTIONS]

  Not in it are pause, lost-wakeup, names, turns, waiters, deadline, order, reentry, same-pid, cut,
  cut-replies, cut-requests, slow-replies, lost-reply, lost-release, store-errors, pause-at-step,
  failed-renewal, many-leases, dead-connection, vanish, late-write, write-only-fence, storm,
  failover, restart-empty, restart-behind, server-clock, clock-back, eviction, taken-away, deposed,
  server-stall, majority-down, leader-deaths, client-clock and suspend: fencepost trial NAME

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
    let kept = kept_ttls();
    format!(
        "\
One lock in every scenario that applies to it and its store. The exit code is the worst verdict's.
Usage: fencepost gauntlet [OPTIONS]

  --lock NAME         the strategy; --lock help lists all             [default: safe]
                      {servers}: the library's lock on such servers, renewed
                      or your own program: --lock='python3 my_lock.py' (docs/your-lock-on-trial.md)
  --scenario NAME     only this one; may be given several times
  --list              the scenarios: what is tried on this store and what is not; also --json
  --ladder            the same for naive, safe, watchdog and fenced, side by side
  --envelope          searches how long a pause, a cut, a late grant or work may take
  --predict           asks for the verdict on each scenario first; needs a terminal
  --runs N            every scenario N times; the worst run counts    [default: 1]
  --jobs N            lock trials at the same time; sales run alone   [default: 2]
  --ttl MS            how long a lock lasts without being renewed     [default: 500]
                      etcd and zk need 2000 or more. --ttl does not change these:{kept}
  --seed N            repeats the lab's choices, not the OS's timing  [default: random, printed]
  --output DIR        one JSON report and one history for each trial
  --report FILE.html  one page with the worst run of each scenario
{TIMES}{every_trial}"
    )
}

const GAUNTLET_EXAMPLES: &str = "\
Examples
  fencepost gauntlet                         a token and a TTL, on SQLite, in seconds
  fencepost gauntlet --lock=fenced --store redis --report page.html
  fencepost gauntlet --lock=./subjects/lease --runs 3 --output results
  fencepost gauntlet --lock=watchdog --scenario pause --scenario ttl-edge
  fencepost gauntlet --lock=./subjects/lease --ladder --scenario pause --report page.html
  fencepost gauntlet --lock=safe --envelope --scenario pause
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
        let all = TRIAL_COMMANDS.iter().chain(&LOCK_COMMANDS);
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
