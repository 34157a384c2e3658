//! The help text of `trial`, with every scenario that it runs, by what each needs.

pub(super) const TRIAL: &str = "\
Runs one scenario by name.
Usage: fencepost trial NAME [OPTIONS]

Every store (default --store sqlite)
  deadlock            two processes take two locks in opposite order: what ends it?
  deadlock-sorted     they take them in the same order
  crash               the holder is killed: when is its lock free?
  ttl-edge            A's work takes longer than its lease: does B get the lock? Is an update lost?
  stale-release       A is paused beyond its lease, then releases: whose lock is released?
  short-stock         a purchase finds nothing to sell: does it release its lock?
  pause               A reads, is paused beyond its lease, then writes: over B's update?
  lost-wakeup         A releases the lock just when B is about to wait for it: is B woken?
  names               long and similar names, several held at once: is each a lock of its own?
  turns               four processes take 300 turns, and are started again in between: do fences
                      grow, as numbers, and does everybody get its turns?
  waiters             four wait; one of them is killed, then the holder, then whoever takes over,
                      and another one joins: is everybody else served, one at a time?
  deadline            B gives up after 300 ms: is C held up by what is left of it? And is a grant
                      after a long wait a whole lease?
  order               three wait for A, each of which asked well after the other: are they served
                      in that order? Only a lock that claims to be fair is tried: --lock=in-line
  reentry             A asks for a lock that it has, and releases an old hold again: is there a
                      second hold, and is B's lock released, or A's new hold?
  same-pid            A dies and comes back with the same process id: is it taken for the dead one,
                      and do its locks come free? Needs root, or a user namespace, to choose the id
  late-write          A's write is delayed on its way to the resource; A's lock ends, B writes; then
                      A's write arrives: over B's update?
  write-only-fence    as pause, but B has read when A writes, and writes after it: is a fence that
                      is checked on writes alone enough? --lock=fenced-writes shows that it is not
  storm               processes take turns at a few locks while faults hit them at random: is there
                      ever a second holder, a falling fence, a stuck lock?
A store with a server (default --store redis)
  cut                 A is cut off from its store beyond its lease, then writes: over B's update?
  cut-replies         A's requests reach its store, and no reply reaches A, beyond its lease: does A
                      write over B's update, or let B in while it believes in its lock?
  cut-requests        no request of A's reaches its store, and A hears what the store sends: does
                      it take that for a renewal?
  slow-replies        A learns late that it has the lock: does it count its lease from there?
  lost-reply          a reply to A's request is lost: is that a grant, and is the lock free again?
  lost-release        the reply to A's release is lost, even when B has the lock by then: is B's
                      lock left alone, and does the lock come free?
  store-errors        the store answers A's requests and releases with errors: is one taken for a
                      grant, or for a release? --store redis or redlock
  pause-at-step       A is paused beyond its lease at each reply of its store in turn: does it go
                      on as if it had the lock, and does its release free another's?
  vanish              A's machine vanishes from the network, and no connection of A's ends: when is
                      its lock free?
A store with a server, and a lock that claims to renew its leases (default --store redis)
  failed-renewal      a reply to the holder is lost, and a renewal meets an error: is the lock kept?
  many-leases         A holds 2,500 locks, and a round trip to its store takes 300 ms: does it keep
                      them all?
  dead-connection     A's connections die silently, and new ones work: does it keep its lock?
Private servers that the lab makes fail (all but redis: built with --features full)
  failover            the primary dies before its replica has the lock: does B get the lock?
                      --store redis (the default), postgres, 'postgres?locks=advisory' or etcd
  restart-empty       the server dies and comes back without its data: does B get the lock? --store
                      redis (the default), redlock, 'redlock?restart_delay=10s' (votes late)
  eviction            the server is short of memory and evicts A's lock: does B get the lock?
                      --store redis (the default)
  taken-away          the lab deletes A's lock at the store, and B gets it: is A told, and in time?
                      --store redis (the default), redlock, postgres, etcd or zk
  deposed             a copy takes over, and the old primary lives on with A: does A learn in time?
                      --store redis (the default), postgres or 'postgres?locks=advisory'
  server-stall        the server is stopped for less than a lease, and for more: is the lock kept,
                      and free again? --store redis (the default), redlock, postgres, etcd or zk
  majority-down       two of three servers die, and come back with their data: does anybody get the
                      lock without a majority? --store redlock (the default), etcd or zk
  leader-deaths       the leader dies three times while A holds the lock, and after C has died with
                      one: is A's kept, and when is C's free? --store etcd (the default)
Clocks (needs cc)
  restart-behind      the server comes back without its data and an hour behind: does B get the
                      lock, and a higher fence? --store redis (the default): a private server
  server-clock        the clock of the lock's server jumps an hour forward: does B get the lock?
                      --store redis (the default): a private server
  clock-back          the server's clock jumps an hour back, then A dies: when is its lock free?
                      --store redis (the default): a private server
  client-clock        A's or B's time of day jumps by an hour, or runs fast: does B get the lock?
  suspend             A reads, its machine is suspended, then it writes: over B's update?
                      needs a store with a server; the default is --store redis

  --work MS           ttl-edge: how long the work takes               [default: 3000]
  --for TIME          storm: how long, at most 24h                    [default: 60s]
  --processes N       storm: how many processes (3–8)                 [default: 5]
  --names N           storm: how many locks (1–6)                     [default: 3]
  --faults LIST       storm: kill,pause,cut,delay,server,clock        [default: all that apply]
  --shrink [TIME]     storm: after a conviction, runs smaller plans of faults, five times each;
                      prints how often each convicts; at most TIME  [without TIME: 5m]
  --runs N            storm: N storms with N seeds; prints how many of them convicted the lock
                      with --history run.jsonl, the shortest beginning of the history that convicts
                      is saved, too: run.prefix.jsonl

";

pub(super) const TRIAL_EXAMPLES: &str = "\
Examples
  fencepost trial ttl-edge --lock=watchdog   the lease is renewed while the work goes on
  fencepost trial stale-release --lock=blind-delete
  fencepost trial short-stock --lock=late-expiry
  fencepost trial pause --lock=fenced        the resource refuses the late write
  fencepost trial failover                   one lock, two holders: the replica never received it
  fencepost trial failover --lock=fenced     two believe, the resource refuses the older fence
  fencepost trial failover --store etcd      the leader dies, and the lock survives
  fencepost trial restart-empty --lock=watchdog --report page.html
  fencepost trial restart-empty --store redlock      one of three forgets: two holders
  fencepost trial server-clock --lock=fenced      two believe, the resource refuses one
  fencepost trial taken-away --lock=watchdog      learns of it at its next renewal
  fencepost trial deposed --lock=watchdog      the old primary goes on renewing the lease
  fencepost trial server-stall --lock=watchdog      keeps its lease, or knows that it is over
  fencepost trial majority-down --store etcd      unavailable, and says so
  fencepost trial leader-deaths --lock=watchdog      three elections, one hold
  fencepost trial lost-wakeup --lock=late-watch --store zk      sleeps forever
  fencepost trial names --lock=watchdog      keeps several names alive, and each apart
  fencepost trial same-pid --lock=watchdog   waits for the lease of its own first life
  fencepost trial cut --lock=watchdog        stops itself when its lease is over
  fencepost trial cut-replies --lock=watchdog      hears nothing, and stops itself
  fencepost trial lost-reply --lock=naive    its key stays without an expiry
  fencepost trial store-errors --lock=naive  sets no expiry when the store refuses that step
  fencepost trial lost-release --lock=watchdog      asks again, for its own lock only
  fencepost trial failed-renewal --lock=watchdog      renews again in time
  fencepost trial late-write --lock=watchdog      no lock can call a write back
  fencepost trial write-only-fence --lock=fenced-writes      every write is fenced, one is lost
  fencepost trial many-leases --lock=watchdog      renews 2,500 leases over a slow network
  fencepost trial dead-connection --lock=watchdog      connects again before its lease ends
  fencepost trial vanish --lock=advisory --store postgres      nobody tells the server
  fencepost trial storm --lock=fenced --for 20s      no update is lost, whatever happens
  fencepost trial storm --lock=blind-delete --for 10s --runs 5 --history run.jsonl
  fencepost trial storm --lock=naive --store redis --for 20s --faults kill,cut --shrink 2m
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fencepost::stores::KINDS;
    use fencepost_trial::holds::Scenario;
    use fencepost_trial::store::{ServerFault, StoreFacts, private_name};

    use super::TRIAL;

    type Fits = fn(Scenario) -> bool;

    /// The headings, and which scenarios stand below each. A scenario stands below the first that fits.
    const HEADINGS: [(&str, Fits); 5] = [
        ("Clocks", Scenario::sets_clocks),
        ("Private servers", Scenario::fails_servers),
        ("A store with a server, and", Scenario::is_about_renewal),
        ("A store with a server (", Scenario::needs_server),
        ("Every store", |_| true),
    ];

    /// Returns each scenario of the help of `trial` with the heading above it and its own lines.
    fn scenarios() -> Vec<(&'static str, &'static str, String)> {
        let mut heading = "";
        let mut all: Vec<(&str, &str, String)> = Vec::new();
        for line in TRIAL.lines() {
            let entry = line.strip_prefix("  ");
            let entry = entry.filter(|entry| entry.starts_with(|c: char| c.is_ascii_lowercase()));
            if let Some(entry) = entry {
                let (name, words) = entry.split_once(' ').unwrap_or((entry, ""));
                all.push((heading, name, words.to_owned()));
            } else if line.starts_with(|c: char| c.is_ascii_uppercase()) {
                heading = line;
            } else if let Some((.., words)) = all.last_mut().filter(|_| line.starts_with("      "))
            {
                words.push_str(line);
            } else if line.is_empty() && !all.is_empty() {
                break;
            }
        }
        all
    }

    #[test]
    fn the_help_of_trial_lists_every_trial_and_no_other() {
        let named = scenarios();
        let names: BTreeSet<&str> = named.iter().map(|(_, name, _)| *name).collect();
        let all = Scenario::ALL.map(Scenario::name);
        assert_eq!((names, named.len()), (BTreeSet::from(all), all.len()));
    }

    #[test]
    fn each_trial_stands_below_the_heading_that_says_what_it_needs() {
        let named = scenarios();
        let of_heading = |scenario: Scenario| {
            let mut fitting = HEADINGS.iter().filter(|(_, fits)| fits(scenario));
            fitting.next().unwrap().0
        };
        for (heading, _) in HEADINGS {
            let below = named
                .iter()
                .filter(|(above, ..)| above.starts_with(heading));
            let below: Vec<&str> = below.map(|(_, name, _)| *name).collect();
            let due = Scenario::ALL.into_iter();
            let due = due.filter(|scenario| of_heading(*scenario) == heading);
            let due: Vec<&str> = due.map(Scenario::name).collect();
            assert_eq!(below, due, "{heading}");
        }
    }

    #[test]
    fn the_help_of_trial_names_the_servers_that_the_lab_can_make_fail() {
        for (_, name, words) in scenarios() {
            let scenario = Scenario::find(name).unwrap();
            if !scenario.fails_servers() {
                continue;
            }
            let (_, stores) = words.split_once("--store").unwrap();
            let named: BTreeSet<&str> =
                stores.split(|c: char| !c.is_ascii_alphanumeric()).collect();
            for kind in KINDS {
                let fault = scenario.server_fault(StoreFacts::of(kind));
                let is_able = fault == Some(ServerFault::Available);
                assert_eq!(named.contains(private_name(kind)), is_able, "{name}");
            }
            let default = format!("{} (the default)", private_name(scenario.store().kind()));
            let words: Vec<&str> = words.split_whitespace().collect();
            assert!(words.join(" ").contains(&default), "{name}: {default}");
        }
    }
}
