//! The help texts of `fencepost exec` and `fencepost locks`.

pub(super) const EXEC: &str = "\
Runs a command while holding a lock. If the lock is lost, stops the command and its children.
Usage: fencepost exec --name NAME [OPTIONS] -- COMMAND [ARGUMENTS]

  --name NAME         the lock: any text without control characters, at most 255 bytes
  --wait TIME         wait this long for the lock: 500ms, 30s, 1h30m  [default: one attempt]
  --ttl TIME          how long the lock outlives a crash, 500ms to 24h; renewed while it runs
                      ZooKeeper: at most its maxSessionTimeout        [default: 10s]
  --grace TIME        from SIGTERM to SIGKILL when renewals fail; at most 0.45 × TTL - 0.1 s
                                                                      [default: 2s, at most TTL / 5]
  --store STORE       sqlite: a file of this user · sqlite:PATH       [default: sqlite]
{servers}                      FENCEPOST_STORE sets it for all commands, and keeps passwords out of ps
  -q, --quiet         do not print who holds the lock while waiting
The command has FENCEPOST_NAME and FENCEPOST_FENCE in its environment and receives the signals that
exec receives. A resource that remembers the highest fence can refuse a stale command.
Exit codes
  the command's own; 128 + N if signal N ended it; 125 the lock was lost, the command was stopped
  The command was not started: 75 busy   124 not free in time   126 cannot be executed
  127 not found   69 store unreachable   64 usage
";

pub(super) const EXEC_EXAMPLES: &str = "\
Examples
  fencepost exec --name deploy -- ./deploy.sh --production
  fencepost exec --name nightly --wait 30m -- sh -c 'pg_dump shop > shop.sql'
  fencepost exec --name deploy --store redis://cache -- ./deploy.sh
";

pub(super) const LOCKS: &str = "\
Shows locks, and releases a lock by force.
Usage: fencepost locks list [PATTERN] | show NAME | release NAME [OPTIONS]

  list [PATTERN]      locks with a holder or waiters; patterns have * ? [a-z], \\ escapes
  show NAME           one lock: its holder, lease and waiters. Exit 1: nobody holds it
  release NAME        asks first. The holder notices at its next renewal, and may still be working
  -y, --yes           release without asking
  --store STORE       sqlite: a file of this user · sqlite:PATH       [default: sqlite]
{servers}                      FENCEPOST_STORE sets it for all commands, and keeps passwords out of ps
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
