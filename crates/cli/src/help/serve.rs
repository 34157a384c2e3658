//! The help text of `fencepost serve`.

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
  --wait line|poll    line: first come, first served, for the sum of all pauses;
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
