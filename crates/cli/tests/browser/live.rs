//! Tests of the live page of `serve` in the browser.

use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::chromium::Chromium;
use crate::pages::{NOTHING, RED};
use crate::stage::{Service, Stage, at_once};

fn visit(service: &Service) -> Chromium {
    let mut browser = Chromium::start();
    browser.prefer("light");
    browser.resize(1280);
    browser.visit(service.client.0);
    browser
}

/// A program that holds a lock until it is dropped.
struct Holder(Child);

impl Holder {
    fn of(stage: &Stage, lock: &str) -> Self {
        let mut command = stage.fencepost(&format!("exec -q --name {lock} -- sleep 1000"));
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        let _ = kill(pid, Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// Condition: the first element that matches a selector is visible, and its text contains this. Hidden elements have a text,
/// too.
fn says(selector: &str, text: &str) -> String {
    format!(
        "(element => element?.checkVisibility() && element.innerText.includes({text:?}))(document.querySelector({selector:?})) === true"
    )
}

pub(crate) fn live_locks_appear_and_vanish() {
    let stage = Stage::new();
    // Customers wait here until they are served.
    let service = stage.serve("--deadline 60s --retries 1000");
    service.put_in("lamp", 5);
    let mut browser = visit(&service);
    browser.wait_for(&says("#locks-none", "No lock is held"));
    let holder = Holder::of(&stage, "lock:product:lamp");
    browser.wait_for(&says("#locks tbody", "lock:product:lamp"));
    let row = browser.text("#locks tbody tr");
    assert!(row.contains(&format!(":{}", holder.0.id())), "{row}");
    browser.wait_for("parseFloat(document.querySelector('.lease span').textContent) > 0");
    browser.wait_for(&says("#f-held", "1"));
    std::thread::scope(|scope| {
        let order = scope.spawn(|| service.order(&[("lamp", 2)]));
        browser.wait_for(&says("#locks tbody tr td:last-child", "1"));
        browser.wait_for(&says("#f-waiting", "1"));
        drop(holder);
        assert_eq!(order.join().unwrap().status, 201);
    });
    browser.wait_for(&says("#locks-none", "No lock is held"));
    let rows = browser.evaluate("document.querySelectorAll('#locks tbody tr').length");
    assert_eq!(rows, 0);
    browser.wait_for(&says("#orders tbody", "lamp × 2"));
    browser.wait_for(&says("#products tbody tr", "100 %"));
    browser.wait_for(&says("#products tbody tr td:last-child", "yes"));
    let units = browser.text("#products tbody tr");
    let units: Vec<&str> = units.split_whitespace().collect();
    assert_eq!(units, ["lamp", "100", "%", "3", "2", "0", "yes"]);
    assert_eq!(browser.troubles(), NOTHING);
}

pub(crate) fn units_that_orders_do_not_account_for_are_shown() {
    let stage = Stage::new();
    let service = stage.serve("");
    for product in ["desk", "lamp"] {
        service.put_in(product, 5);
        assert_eq!(service.order(&[(product, 2)]).status, 201);
    }
    let mut browser = visit(&service);
    let adds_up = |row: u32| format!("#products tbody tr:nth-child({row}) td:last-child");
    browser.wait_for(&says(&adds_up(1), "yes"));
    browser.wait_for(&says(&adds_up(2), "yes"));
    // The product's own row still adds up, so no constraint is violated.
    let database = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    database.busy_timeout(crate::http::LONG).unwrap();
    let lose = "UPDATE checkout_reservations SET quantity = 1 WHERE product_id = 'lamp'";
    assert_eq!(database.execute(lose, []).unwrap(), 1);
    browser.wait_for(&says(&adds_up(2), "no"));
    assert_eq!(browser.text(&adds_up(1)).trim(), "yes");
    assert_eq!(browser.troubles(), NOTHING);
}

pub(crate) fn what_happens_is_told_and_nothing_piles_up() {
    let stage = Stage::new();
    let service = stage.serve("");
    for number in 0..60 {
        service.put_in(&format!("p{number}"), 1);
    }
    let mut browser = visit(&service);
    browser.wait_for(&says("#products-more", "and 44 products more"));
    at_once(4, |part| {
        for number in (part..60).step_by(4) {
            let product = format!("p{number}");
            service.order(&[(&product, 1)]);
            service.order(&[(&product, 1)]);
        }
    });
    browser.wait_for(&says("#log", "too little was left"));
    browser.wait_for("document.querySelector('#f-orders').textContent === '60'");
    let shown = |browser: &mut Chromium, selector: &str| {
        browser.evaluate(&format!("document.querySelectorAll('{selector}').length"))
    };
    assert_eq!(shown(&mut browser, "#log li"), 30);
    assert_eq!(shown(&mut browser, "#orders tbody tr"), 8);
    assert_eq!(shown(&mut browser, "#products tbody tr"), 16);

    // The page can be frozen for reading.
    let elements = shown(&mut browser, "*");
    browser.evaluate("pause.click()");
    let before = browser.text("#orders tbody");
    service.put_in("last", 1);
    service.order(&[("last", 1)]);
    browser.evaluate("new Promise(done => setTimeout(done, 2500))");
    assert_eq!(browser.text("#orders tbody"), before);
    browser.evaluate("pause.click()");
    browser.wait_for(&says("#orders tbody", "last"));
    assert_eq!(shown(&mut browser, "*"), elements);
    assert_eq!(browser.troubles(), NOTHING);
}

/// Records what the trial showed on its way.
const KEEP: &str = "window.kept = []; new MutationObserver(() => kept.push([trial.dataset.phase, document.querySelector('#lanes .range')?.textContent]))
    .observe(trial, { attributes: true, childList: true, subtree: true, characterData: true })";

/// The element with the focus: the lock of its button, or its id.
const FOCUSED: &str = "document.activeElement.dataset.lock ?? document.activeElement.id";

fn tab_to(browser: &mut Chromium, what: &str) {
    for _ in 0..40 {
        browser.press("Tab");
        if browser.evaluate(FOCUSED) == what {
            return;
        }
    }
    panic!("Tab never reaches {what}");
}

pub(crate) fn a_trial_by_keyboard_grows_and_red_means_broken() {
    let stage = Stage::new();
    let service = stage.serve("--lab");
    let mut browser = visit(&service);
    browser.wait_for("offers.children.length === 4");
    browser.evaluate(KEEP);
    browser.press("Tab");
    assert_eq!(browser.text(":focus"), "Skip to the locks");
    for (lock, outcome) in [("none", "BROKEN"), ("fenced", "HELD")] {
        tab_to(&mut browser, lock);
        let outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle");
        assert_eq!(outline, "solid", "where the focus is can be seen");
        browser.evaluate("kept.length = 0");
        browser.press("Enter");
        browser.wait_for(&says("#out", outcome));
        browser.settle();
        assert_eq!(browser.evaluate(FOCUSED), lock, "the focus stays");
        let red = browser.evaluate(RED).as_u64().unwrap();
        match outcome {
            "BROKEN" => assert!(red > 50, "{red}"),
            _ => assert_eq!(red, 0),
        }
        let running = "kept.filter(([phase]) => phase === 'running').map(([, range]) => range)";
        let steps = browser.evaluate(&format!("new Set({running}).size"));
        assert!(steps.as_u64() >= Some(1), "it was drawn while it ran");
        assert_eq!(browser.evaluate("trial.dataset.phase"), "ended");
        browser.wait_for(&says("#again", &format!("--lock={lock}")));
    }
    // The picture grew step by step while it was visible.
    let steps = browser.evaluate(
        "new Set(kept.filter(([phase]) => phase === 'running').map(([, range]) => range)).size",
    );
    assert!(steps.as_u64() >= Some(2), "{steps}");
    tab_to(&mut browser, "stop");
    assert_eq!(browser.troubles(), NOTHING);
}

pub(crate) fn a_product_named_like_markup_stays_text() {
    const NAME: &str = "<img src=x onerror=\"document.title='pwned'\"><b>&amp;";
    let stage = Stage::new();
    let service = stage.serve("");
    let product =
        json!({"product_id": "p", "shop_id": "s1", "name": NAME, "price_cents": 1, "stock": 1});
    assert_eq!(service.client.post("/v1/products", &product).status, 201);
    // Any text can be the name of a lock.
    let lock = "lock:product:<img/src=x/onerror=alert(1)>";
    let _holder = Holder::of(&stage, lock);
    let mut browser = visit(&service);
    browser.wait_for("document.querySelector('#products tbody td') !== null");
    let shown = browser.evaluate("document.querySelector('#products tbody td').textContent");
    assert_eq!(shown, NAME);
    browser.wait_for(&says("#locks tbody", lock));
    assert_eq!(browser.evaluate("document.images.length"), 0);
    assert_eq!(
        browser.evaluate("document.title"),
        "Checkout, live · Fencepost"
    );
    assert_eq!(browser.troubles(), NOTHING);
}

pub(crate) fn the_live_page_fits_a_narrow_screen_in_the_dark() {
    let stage = Stage::new();
    let service = stage.serve("--lab");
    let long = "x".repeat(64);
    service.put_in(&long, 1_000_000);
    service.order(&[(&long, 1_000)]);
    let _holder = Holder::of(&stage, &format!("lock:product:{long}"));
    let mut browser = Chromium::start();
    browser.prefer("dark");
    browser.resize(390);
    browser.visit(service.client.0);
    browser.wait_for("document.querySelector('#locks tbody tr') !== null");
    browser.wait_for("document.querySelector('#products tbody tr') !== null");
    service.order(&[(&long, 1_001)]);
    assert_eq!(service.order(&[(&long, 1)]).status, 409);
    browser.wait_for(&says("#log", "others kept buying it"));
    browser.evaluate("offers.firstChild.click()");
    browser.wait_for(&says("#out", "BROKEN"));
    for width in [390, 768, 1280] {
        browser.resize(width);
        browser.settle();
        let needed = browser.evaluate("document.documentElement.scrollWidth");
        assert!(needed.as_u64() <= Some(width.into()), "{needed} of {width}");
    }
    let paper = |browser: &mut Chromium| {
        browser.evaluate("getComputedStyle(document.body).backgroundColor")
    };
    assert_eq!(paper(&mut browser), "rgb(15, 17, 20)");
    browser.evaluate("theme.click()");
    assert_eq!(paper(&mut browser), "rgb(251, 251, 249)");
    assert_eq!(browser.troubles(), NOTHING);
    keep(&mut browser, "live.png");
}

/// Saves a picture for inspection, beside the pages of reports.
pub(crate) fn keep(browser: &mut Chromium, name: &str) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), browser.picture()).unwrap();
}

pub(crate) fn the_page_finds_a_server_that_comes_back() {
    let stage = Stage::new();
    let service = stage.serve("");
    let port = service.client.0.port();
    let mut browser = visit(&service);
    browser.wait_for(&says("#products-none", "No products yet"));
    assert_eq!(browser.troubles(), NOTHING);
    assert!(service.stop().success(), "an open page does not keep it");
    browser.wait_for(&says("#link", "connection lost"));
    browser.wait_for(&says("#lost", "what is shown is older"));
    let service = stage.serve_at(port, "");
    service.put_in("lamp", 5);
    browser.wait_for(&says("#link", "connected"));
    browser.wait_for(&says("#products", "lamp"));
    assert_eq!(browser.evaluate("lost.hidden"), true);
}

pub(crate) fn a_token_is_asked_for_where_one_is_needed() {
    let stage = Stage::new();
    let service = stage.serve("--lab --admin-token s3cret-s3cret");
    let mut browser = visit(&service);
    browser.wait_for("offers.children.length === 4");
    assert_eq!(
        browser.evaluate("getComputedStyle(token).display === 'none' || !token.offsetParent"),
        true
    );
    browser.evaluate("offers.lastChild.click()");
    browser.wait_for("document.activeElement.id === 'token'");
    browser.wait_for(&says("#out", "changes need the admin token"));
    browser.evaluate("token.value = 's3cret-s3cret'");
    browser.press("Enter");
    browser.wait_for(&says("#out", "HELD"));
    assert_eq!(browser.evaluate("token.offsetParent === null"), true);
    let kept = browser
        .evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])");
    assert!(!kept.as_str().unwrap().contains("s3cret"), "{kept}");
}

pub(crate) fn an_empty_shop_offers_samples_at_the_press_of_a_button() {
    let stage = Stage::new();
    let service = stage.serve("");
    let mut browser = visit(&service);
    // A value that is not known yet is not shown as empty.
    let before = browser.evaluate(
        "fetch('/').then(answer => answer.text()).then(text => new DOMParser().parseFromString(text, 'text/html').querySelector('#products-none').textContent)",
    );
    assert_eq!(before, "Loading.");
    browser.wait_for(&says("#products-none", "No products yet"));
    browser.wait_for(&says("#samples-put", "Add six sample products"));
    assert_eq!(
        browser.evaluate("document.querySelector('#samples-send').hidden"),
        true
    );
    browser.resize(390);
    browser.prefer("dark");
    browser.settle();
    keep(&mut browser, "live-empty-390-dark.png");
    browser.resize(1280);
    browser.prefer("light");
    browser.settle();
    keep(&mut browser, "live-empty-1280-light.png");
    browser.evaluate("document.querySelector('#samples-put').click()");
    browser.wait_for("document.querySelectorAll('#products tbody tr').length === 6");
    browser.wait_for(&says("#samples-send", "Send 200 sample orders"));
    assert_eq!(
        browser.evaluate("document.querySelector('#samples-put').hidden"),
        true
    );
    assert_eq!(browser.troubles(), NOTHING);
    browser.evaluate("document.querySelector('#samples-send').click()");
    browser.wait_for(
        "/ made, .* refused\\.$/.test(document.querySelector('#samples-out').textContent)",
    );
    let made = browser.text("#samples-out");
    let made: u64 = made.split(' ').next().unwrap().parse().unwrap();
    assert!(made > 0);
    browser.wait_for("document.querySelectorAll('#orders tbody tr').length === 8");
    keep(&mut browser, "live-samples-1280-light.png");
    browser.resize(390);
    browser.prefer("dark");
    browser.settle();
    let needed = browser.evaluate("document.documentElement.scrollWidth");
    assert!(needed.as_u64() <= Some(390), "{needed}");
    keep(&mut browser, "live-samples-390-dark.png");
    service.adds_up();
}

pub(crate) fn samples_need_the_token_where_changes_do() {
    let stage = Stage::new();
    let service = stage.serve("--admin-token s3cret-s3cret");
    let mut browser = visit(&service);
    browser.wait_for(&says("#samples-put", "Add six sample products"));
    browser.evaluate("document.querySelector('#samples-put').click()");
    browser.wait_for("document.activeElement.id === 'token'");
    let products = || service.client.get("/v1/products").json()["products"].clone();
    assert_eq!(products(), json!([]));
    browser.evaluate("token.value = 's3cret-s3cret'");
    browser.press("Enter");
    browser.wait_for("document.querySelectorAll('#products tbody tr').length === 6");
    assert_eq!(products().as_array().unwrap().len(), 6);
}

pub(crate) fn without_the_lab_the_page_says_how_to_get_it() {
    let stage = Stage::new();
    let service = stage.serve("");
    let mut browser = visit(&service);
    browser.wait_for(&says(
        "#trial",
        "The lab is off. Start fencepost serve --lab",
    ));
    assert_eq!(browser.evaluate("offers.offsetParent === null"), true);
    assert_eq!(browser.troubles(), NOTHING);
}
