//! The help text of `fencepost doctor`.

pub(super) const DOCTOR: &str = "\
Checks what endangers locks in a store: settings, replicas, rights, clock, latency. Changes nothing.
Usage: fencepost doctor [OPTIONS]

  --store STORE       sqlite: a file of this user · sqlite:PATH       [default: sqlite]
{servers}                      FENCEPOST_STORE sets it for all commands
  --slow TIME         a caution if the slowest 1 % of a server's answers take this long
                                                                      [default: 250ms]
  --json   -q, --quiet (leave out what is fine)   --color auto|always|never   --ascii
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
