//! The help of the commands for locks in use.

pub(super) const EXEC: &str = "\
Runs a command while holding a lock. When the lock is lost, stops it and all it started.
Usage: fencepost exec --name NAME [OPTIONS] -- COMMAND [ARGUMENTS]

  --name NAME         the lock: any text without control characters, at most 255 bytes
  --wait TIME         queue this long for the lock                    [default: one attempt]
  --ttl TIME          how long the lock outlives a crash, 500ms to 24h; kept alive meanwhile
                      ZooKeeper: at most its maxSessionTimeout        [default: 10s]
  --grace TIME        between SIGTERM and SIGKILL when the lock is lost; less than half the TTL
                                                                      [default: 2s, at most TTL / 5]
  --store STORE       sqlite: a file of this user · sqlite:PATH       [default: sqlite]
                      redis://[USER:PASSWORD@]HOST[:PORT][/DB] · rediss://… · unix:/PATH
                      built with --features full: postgres://… · etcd://… · zk://… · redlock://A,B,C
                      FENCEPOST_STORE says the same for every command, and keeps passwords out of ps
  -q, --quiet         does not say whom it waits for
The command finds FENCEPOST_NAME and FENCEPOST_FENCE in its environment, and gets the signals that
exec gets. A resource that remembers the highest fence can refuse a command that comes too late.
Exit codes
  the command's own; 128 + N when signal N ended it; 125 the lock was lost, the command stopped
  75 busy   124 waited in vain   126 cannot be executed   127 not found   69 store unreachable
  64 usage      all but the first line: the command was not started
";

pub(super) const EXEC_EXAMPLES: &str = "\
Examples
  fencepost exec --name deploy -- ./deploy.sh --production
  fencepost exec --name nightly --wait 30m -- sh -c 'pg_dump shop > shop.sql'
  fencepost exec --name deploy --store redis://cache -- ./deploy.sh
";

pub(super) const LOCKS: &str = "\
Looks at locks, and ends a hold by force.
Usage: fencepost locks list [PATTERN] | show NAME | release NAME [OPTIONS]

  list [PATTERN]      held or wanted now; a pattern has * ? [a-z], and \\ takes the next as it is
  show NAME           one lock: holder, lease, who waits. Exit 1: nobody holds it
  release NAME        asks first. The holder is told at its next renewal, and may still be working
  --yes               releases without asking
  --store STORE       sqlite: a file of this user · sqlite:PATH       [default: sqlite]
                      redis://[USER:PASSWORD@]HOST[:PORT][/DB] · rediss://… · unix:/PATH
                      built with --features full: postgres://… · etcd://… · zk://… · redlock://A,B,C
                      FENCEPOST_STORE says the same for every command, and keeps passwords out of ps
  --json   -q, --quiet   --color auto|always|never   --ascii
Exit codes
  0 done   1 nobody holds it, or not released   64 usage   69 store unreachable
";

pub(super) const LOCKS_EXAMPLES: &str = "\
Examples
  fencepost locks list 'deploy*'
  fencepost locks show deploy --json | jq .lock.holder
  fencepost locks release deploy --yes
";
