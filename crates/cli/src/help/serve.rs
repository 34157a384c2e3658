//! What `serve` says about itself.

pub(super) const SERVE: &str = "\
A checkout over HTTP that never oversells: products, orders, reservations under the library's locks.
Usage: fencepost serve [OPTIONS]                                        (also: http-server)

  --port N            0 for any free one                              [default: 8080]
  --host ADDRESS      an address of this machine; others than loopback need --admin-token
                                                                      [default: 127.0.0.1]
  --admin-token TEXT  whatever changes something needs it: Authorization: Bearer TEXT
                      FENCEPOST_ADMIN_TOKEN says the same, and keeps it out of ps
  --db DATABASE       products and orders: a file, or postgres://USER@HOST/DATABASE
                      (built with --features full)                    [default: shop.db]
                      FENCEPOST_DB says the same, and keeps a password out of ps
  --store STORE       the locks: sqlite, sqlite:PATH, redis://HOST …  [default: sqlite]
  --ttl TIME          a lock's lease, kept alive while an order works [default: 3s]
  --retries N         pauses before an order gives up on a lock       [default: 10]
  --retry SCHEDULE    the pauses: 50ms · exponential:10ms:1s · jitter:10ms:1s · 10ms,20ms,50ms
                                                                      [default: 50ms]
  --wait line|poll    line: first come, first served, for as long as all pauses together;
                      poll: ask again after each                      [default: line]
  --order-path PATH   lock · optimistic (versions) · row (the database's locks) [default: lock]
  --reserve-for TIME  then units of unconfirmed orders go back        [default: 10m]
  --keep-keys TIME    idempotency keys are kept so long, and until their orders have ended
                                                                      [default: 24h]
  --deadline TIME     an order waits no longer; 504 half a second later [default: 5s]
  --max-in-flight N   requests and orders at once; more are refused   [default: 512]
  --max-connections N more wait to be accepted                        [default: 1024]
  --lab               trials of locks on the page, and a scratch shop for load tests:
                      POST /reset, POST /purchase, GET /stock/ID; http-server is serve --lab
  --log text|json     every request on standard error, not only what goes wrong
  -q, --quiet         only the first line and errors
Exit codes
  0 stopped by Ctrl-C or SIGTERM   64 usage   69 store or database unreachable   71 port taken
  73 the file cannot be opened
";

pub(super) const SERVE_EXAMPLES: &str = "\
Examples
  fencepost serve
  fencepost serve --db postgres://shop@db/shop --store redis://cache --log json
  fencepost serve --lab
  fencepost serve --retry jitter:10ms:1s --retries 8 --wait poll
  FENCEPOST_ADMIN_TOKEN=$(openssl rand -hex 16) fencepost serve --host 0.0.0.0
  curl -H 'Content-Type: application/json' http://127.0.0.1:8080/v1/products \\
    -d '{\"product_id\":\"lamp-7\",\"shop_id\":\"s1\",\"name\":\"Lamp\",\"price_cents\":1990,\"stock\":5}'
";
