//! The help of `doctor`.

pub(super) const DOCTOR: &str = "\
What endangers locks in a store: settings, replicas, rights, clock, latency. It only looks.
Usage: fencepost doctor [OPTIONS]

  --store STORE       redis://[USER:PASSWORD@]HOST[:PORT] · rediss://… · unix:/PATH
                      redlock://HOST,HOST,HOST · postgres://USER@HOST/DATABASE[?table=NAME]
                      etcd://HOST,HOST,HOST · zk://HOST,HOST,HOST      (--features full)
                      sqlite: a file of this user · sqlite:PATH       [default: sqlite]
                      FENCEPOST_STORE says the same for every command
  --slow TIME         of servers: one answer in a hundred that takes this long is a caution
                                                                      [default: 250ms]
  --json   -q, --quiet (without what is fine)   --color auto|always|never   --ascii
Exit codes
  0 fine   1 caution   2 danger   64 usage   69 store unreachable
";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples
  fencepost doctor --store redis://cache
  fencepost doctor --store postgres://shop@db/shop
  fencepost doctor --store redis://cache -q || echo 'look at the store first'
  fencepost doctor --store redis://cache --json | jq -r '.findings[] | .severity + \" \" + .topic'
";
