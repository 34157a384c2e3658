//! The help text of `trial`, with every scenario that it runs.

pub(super) const TRIAL: &str = "\
Runs one scenario by name.
Usage: fencepost trial NAME [OPTIONS]

  deadlock            two processes take two locks in opposite order: what ends it?
  deadlock-sorted     they take them in the same order
  crash               the holder is killed: when is its lock free?
  ttl-edge            A's work takes longer than its lease: does B get the lock? Is an update lost?
  stale-release       A is paused beyond its lease, then releases: whose lock is released?
  short-stock         a purchase finds nothing to sell: does it release its lock?
  pause               A reads, is paused beyond its lease, then writes: over B's update?
  failover            the primary dies before its replica has the lock: does B get the lock?
  restart-empty       the server dies and comes back without its data: does B get the lock?
                      these two start and kill their own Redis servers (redis-server)
                      built with --features full: failover also --store postgres,
                      'postgres?locks=advisory' or etcd, restart-empty also --store redlock
                      or 'redlock?restart_delay=10s' (no vote after a restart)
  server-clock        the clock of the lock's server jumps an hour forward: does B get the lock?
  clock-back          the server's clock jumps an hour back, then A dies: when is its lock free?
                      these two set the clock of their own Redis server alone (needs cc)
  eviction            the server is short of memory and evicts A's lock: does B get the lock?
                      starts its own Redis server (redis-server)
  taken-away          the lab deletes A's lock at the store, and B gets it: is A told, and in time?
                      starts its own server: --store redis (the default)
                      built with --features full: also postgres, redlock, etcd and zk
  server-stall        the server is stopped (SIGSTOP) while A holds the lock, for less than a lease
                      and for more: is the lock kept, is there ever a second holder, and can the
                      lock be taken afterwards? Starts its own servers: --store redis, redlock,
                      postgres, etcd (its leader) or zk
  majority-down       two of three servers are killed while A holds the lock, and come back with
                      their data: does anybody get it without a majority, and can the lock be
                      taken afterwards? Built with --features full; starts its own servers:
                      --store redlock (the default), etcd or zk
  client-clock        A's or B's time of day jumps by an hour, or runs fast: does B get the lock?
  suspend             A reads, its machine is suspended, then it writes: over B's update?
                      these two set the clocks of the processes (needs cc); suspend needs a store
                      with a server, by default --store redis
  lost-wakeup         A releases the lock just when B is about to wait for it: is B woken?
  names               long and similar names, several held at once: is each a lock of its own?
  turns               four processes take 300 turns, and are started again in between: do fences
                      grow, as numbers, and does everybody get its turns?
  waiters             four wait; one of them is killed, then the holder, then whoever takes over,
                      and another one joins: is everybody else served, one at a time?
  deadline            B gives up after 300 ms: is C held up by what is left of it? And is a grant
                      after a long wait a whole lease?
  reentry             A asks for a lock that it has, and releases it once too often while B has it:
                      is there a second hold, and is B's lock released?
  cut                 A is cut off from its store beyond its lease, then writes: over B's update?
  slow-replies        A learns late that it has the lock: does it count its lease from there?
  lost-reply          a reply to A's request is lost: is that a grant, and is the lock free again?
  pause-at-step       A is paused beyond its lease at each reply of its store in turn: does it go
                      on as if it had the lock, and does its release free another's?
  many-leases         A holds 2,500 locks, and a round trip to its store takes 300 ms: does it keep
                      them all?
  dead-connection     A's connections die silently, and new ones work: does it keep its lock?
                      these two try only a lock that claims to renew its leases
                      these six need a store with a server; the default is --store redis
  late-write          A's write is delayed on its way to the resource; A's lock ends, B writes; then
                      A's write arrives: over B's update?
  write-only-fence    as pause, but B has read when A writes, and writes after it: is a fence that
                      is checked on writes alone enough? --lock=fenced-writes shows that it is not
  storm               processes take turns at a few locks, and are killed, started again and paused
                      at random: is there ever a second holder, a falling fence, a stuck lock?

  --work MS           ttl-edge: how long the work takes               [default: 3000]
  --for TIME          storm: how long, at most 24h                    [default: 60s]
  --processes N       storm: how many processes (3–8)                 [default: 5]
  --names N           storm: how many locks (1–6)                     [default: 3]
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
  fencepost trial server-stall --lock=watchdog      keeps its lease, or knows that it is over
  fencepost trial majority-down --store etcd      unavailable, and says so
  fencepost trial lost-wakeup --lock=late-watch --store zk      sleeps forever
  fencepost trial names --lock=watchdog      keeps several names alive, and each apart
  fencepost trial cut --lock=watchdog        stops itself when its lease is over
  fencepost trial lost-reply --lock=naive    its key stays without an expiry
  fencepost trial late-write --lock=watchdog      no lock can call a write back
  fencepost trial write-only-fence --lock=fenced-writes      every write is fenced, one is lost
  fencepost trial many-leases --lock=watchdog      renews 2,500 leases over a slow network
  fencepost trial dead-connection --lock=watchdog      connects again before its lease ends
  fencepost trial storm --lock=fenced --for 20s      no update is lost, whatever happens
  fencepost trial storm --lock=blind-delete --for 10s --runs 5 --history run.jsonl
";
