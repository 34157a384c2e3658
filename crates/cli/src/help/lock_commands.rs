//! The help texts of the commands that use locks: `exec`, `locks`, `doctor` and `serve`.

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
{servers}                      FENCEPOST_STORE sets it, except for trials, and keeps passwords out of ps
  -q, --quiet         do not print who holds the lock while waiting
The command has FENCEPOST_NAME and FENCEPOST_FENCE in its environment and receives the signals that
exec receives. A resource that remembers the highest fence can refuse a stale command.
Exit codes
  the command's own; 128 + N if signal N ended it; 125 the lock was lost, the command was stopped
  The command was not started: 75 busy   124 not free in time   126 cannot be executed
  127 not found   69 store unreachable   64 usage
  70 exec could not watch over the command: standard error says why
";

pub(super) const EXEC_EXAMPLES: &str = "\
Examples
  fencepost exec --name deploy -- ./deploy.sh --production
  fencepost exec --name nightly --wait 30m -- sh -c 'pg_dump shop > shop.sql'
  fencepost exec --name deploy --store redis://cache -- ./deploy.sh
";

pub(super) const ELECT: &str = "\
Runs a command while this process leads. After a loss, stops all of it and campaigns again.
Usage: fencepost elect --name NAME [OPTIONS] -- COMMAND [ARGUMENTS]
       fencepost elect --name NAME --observe [--json]

  --name NAME         the election; a lock of that name excludes it
  --value TEXT        what others see (not on Redlock), at most 1024 bytes  [host:process]
  --health COMMAND    a shell command; while it fails or hangs, this process does not lead
  --health-every TIME how often it is run, and how long it may take   [default: 5s]
  --ttl TIME          how long a crashed leader blocks the next, 500ms to 24h
                      ZooKeeper: at most its maxSessionTimeout        [default: 10s]
  --grace TIME        from SIGTERM to SIGKILL; at most 0.45 × TTL - 0.1 s
                                                                      [default: 2s, at most TTL / 5]
  --observe           print who leads now, and every change; --json: one document per line
  --store STORE       sqlite: a file of this user · sqlite:PATH       [default: sqlite]
{servers}                      FENCEPOST_STORE sets it, except for trials, and keeps passwords out of ps
  -q, --quiet         do not print who leads while waiting, nor that this process leads
The command has FENCEPOST_NAME and FENCEPOST_FENCE (its term) in its environment. When it ends by
itself, what it left running is stopped, and this process resigns. Ctrl-C and SIGTERM do the same.
Exit codes
  the command's own; 128 + N if signal N ended it, or this process while it did not lead
  The command was not started: 126 cannot be executed   127 not found   69 store unreachable
  64 usage   70 elect could not watch over the command: standard error says why
";

pub(super) const ELECT_EXAMPLES: &str = "\
Examples
  fencepost elect --name scheduler -- ./scheduler --port 8080
  fencepost elect --name scheduler --value \"$(hostname):8080\" --store redis://cache -- ./scheduler
  fencepost elect --name primary --health 'pg_isready -q' --health-every 2s -- ./archive-wal
  fencepost elect --name scheduler --observe --json | jq -r '.leader.value // .state'
";

pub(super) const ONCE: &str = "\
Runs a job on one machine of many, for a limited time, and not twice for one date of its schedule.
Usage: fencepost once --name NAME --at-most TIME [OPTIONS] -- COMMAND [ARGUMENTS]

  --name NAME         the job; a lock of that name excludes it
  --at-most TIME      stop the command, and all it started, before it has taken this long
  --at-least TIME     let nobody else begin before this time is over, however quick it was; not more
                      than --at-most, and at most a day               [default: 0s]
  --slot TEXT         the date that this run is for: it is not run again once it was completed.
                      Slots sort as text; SQLite, Redis, Postgres table, etcd, ZooKeeper
  --after-crash WHAT  if nobody knows how the last run of the slot ended: skip (it is run at most
                      once) or rerun (at least once, if asked again)  [default: skip]
  --keep TIME         how long slots are remembered; older ones are refused [default: 90d]
  --skip-code N       the exit code if the job is skipped, without a word   [default: 0]
  --ttl TIME          how long a crashed machine blocks the next, 500ms to 24h
                                                                      [default: 10s]
  --grace TIME        from SIGTERM to SIGKILL; at most 0.45 × TTL - 0.1 s
                                                                      [default: 2s, at most TTL / 5]
  --store STORE       sqlite: a file of this user · sqlite:PATH       [default: sqlite]
{servers}                      FENCEPOST_STORE sets it, except for trials, and keeps passwords out of ps
  --json              what became of it, as one line after the command's own output
The command has FENCEPOST_NAME, FENCEPOST_FENCE and FENCEPOST_SLOT in its environment. Exit code 0
completes its slot, another one lets it be run again; one that a signal ended counts as crashed.
Exit codes
  the command's own; 128 + N if signal N ended it; 124 its time was over, it was stopped
  125 the lock was lost, it was stopped, or it ended too late
  The command was not started: 0 or --skip-code skipped   126 cannot be executed   127 not found
  69 store unreachable   64 usage   70 once could not watch over the command
";

pub(super) const ONCE_EXAMPLES: &str = "\
Examples
  fencepost once --name nightly --at-most 30m -- ./report.sh
  fencepost once --name nightly --at-most 30m --slot \"$(date -u +%F)\" -- ./report.sh
  fencepost once --name poll --at-most 50s --at-least 30s --store redis://cache -- ./poll.sh
In a crontab, % ends the line, so write \\% there:
  0 3 * * *  fencepost once --name nightly --at-most 30m --slot \"$(date -u +\\%F)\" -- ./report.sh
";

pub(super) const LOCKS: &str = "\
Shows locks, and releases a lock by force.
Usage: fencepost locks list [PATTERN] | show NAME | release NAME [OPTIONS]

  list [PATTERN]      locks with a holder or waiters; patterns have * ? [a-z], \\ escapes
  show NAME           one lock: its holder, lease and waiters. Exit 1: nobody holds it
  release NAME        asks first. The holder notices by its next renewal, and may still be working
  -y, --yes           release without asking
  --store STORE       sqlite: a file of this user · sqlite:PATH       [default: sqlite]
{servers}                      FENCEPOST_STORE sets it, except for trials, and keeps passwords out of ps
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

pub(super) const DOCTOR: &str = "\
Checks what endangers locks in a store: settings, replicas, rights, clock, latency. Changes nothing.
Usage: fencepost doctor [OPTIONS]

  --store STORE       sqlite: a file of this user · sqlite:PATH       [default: sqlite]
{servers}                      FENCEPOST_STORE sets it, except for trials
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

pub(super) const SERVE: &str = "\
A checkout over HTTP that never oversells: products, orders, reservations under the library's locks.
Usage: fencepost serve [OPTIONS]                                        (also: http-server)

  --port N            0 for any free port                             [default: 8080]
  --host ADDRESS      an address of this machine; all but loopback need --admin-token
                                                                      [default: 127.0.0.1]
  --admin-token TEXT  required to change anything: Authorization: Bearer TEXT
                      FENCEPOST_ADMIN_TOKEN sets it too, and keeps it out of ps
  --db DATABASE       products and orders: a file, or postgres://USER@HOST/DATABASE
                      (built with --features full)                    [default: shop.db]
                      FENCEPOST_DB sets it too, and keeps a password out of ps
  --store STORE       the locks: sqlite, sqlite:PATH, redis://HOST …  [default: sqlite]
  --ttl TIME          a lock's lease, renewed while an order works    [default: 3s]
  --retries N         retries before an order gives up on a lock      [default: 10]
  --retry SCHEDULE    the pauses: 50ms · exponential:10ms:1s · jitter:10ms:1s · 10ms,20ms,50ms
                                                                      [default: 50ms]
  --wait-mode MODE    line: first come, first served, for the sum of all pauses;
                      poll: try again after each pause                [default: line]
  --order-path PATH   lock · optimistic (versions) · row (the database's locks) [default: lock]
  --reserve-for TIME  units of an unconfirmed order return after this [default: 10m]
  --keep-keys TIME    how long to keep idempotency keys, at least until their orders have ended
                                                                      [default: 24h]
  --deadline TIME     limit for an order's waiting; 504 half a second later [default: 5s]
  --max-in-flight N   concurrent requests and orders; more are refused [default: 512]
  --max-connections N concurrent connections; more have to wait       [default: 1024]
  --lab               lock trials on the page, and a scratch shop for load tests:
                      POST /reset, POST /purchase, GET /stock/ID; http-server is serve --lab
  --log text|json     log every request to standard error, not only failures
  -q, --quiet         print only the first line and errors
  --color auto|always|never   --ascii
Exit codes
  0 stopped by Ctrl-C, SIGTERM or SIGHUP   128 + N stopped at once by a second signal N
  64 usage   69 store or database unreachable   70 no metrics   71 port taken
  73 the file cannot be opened
";

pub(super) const SERVE_EXAMPLES: &str = "\
Examples
  fencepost serve
  fencepost serve --db postgres://shop@db/shop --store redis://cache --log json
  fencepost serve --lab
  fencepost serve --retry jitter:10ms:1s --retries 8 --wait-mode poll
  FENCEPOST_ADMIN_TOKEN=$(openssl rand -hex 16) fencepost serve --host 0.0.0.0
  curl -H 'Content-Type: application/json' http://127.0.0.1:8080/v1/products \\
    -d '{\"product_id\":\"lamp-7\",\"shop_id\":\"s1\",\"name\":\"Lamp\",\"price_cents\":1990,\"stock\":5}'
";
