//! Generates the tables of `docs/doctor.md` from the rules; a test compares them with the page.

use super::finding::Severity;
use super::rules::Check;
use super::{etcd, pace, postgres, redis, redlock, sqlite, zookeeper};

/// The command that rewrites the page.
const REGENERATE: &str = "FENCEPOST_WRITE_PAGE=1 cargo test -p fencepost-cli --all-features the_page_says_what_the_rules_say";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");

/// A row of a table.
struct Row {
    topic: &'static str,
    reads: Vec<&'static str>,
    danger: Vec<&'static str>,
    caution: Vec<&'static str>,
}

/// The rows of one store; several checks of one topic share a row.
#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    fn with<R>(mut self, checks: &[Check<R>]) -> Self {
        for check in checks {
            let of = |severity| {
                let alike = check
                    .rules
                    .iter()
                    .filter(move |rule| rule.severity == severity);
                alike.map(|rule| rule.page).filter(|page| !page.is_empty())
            };
            let (danger, caution) = (of(Severity::Danger), of(Severity::Caution));
            let row = self.row(check.topic);
            if !row.reads.contains(&check.reads) {
                row.reads.push(check.reads);
            }
            row.danger.extend(danger);
            row.caution.extend(caution);
        }
        self
    }

    fn row(&mut self, topic: &'static str) -> &mut Row {
        let at = self.0.iter().position(|row| row.topic == topic);
        let at = at.unwrap_or_else(|| {
            self.0.push(Row {
                topic,
                reads: Vec::new(),
                danger: Vec::new(),
                caution: Vec::new(),
            });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Formats the table, without topics that are only ever fine or unknown.
    fn text(&self) -> String {
        let mut text =
            String::from("| topic | read from | danger | caution |\n|---|---|---|---|\n");
        let bad = |row: &&Row| !row.danger.is_empty() || !row.caution.is_empty();
        for row in self.0.iter().filter(bad) {
            let cells = [
                row.topic.to_owned(),
                row.reads.join(", "),
                row.danger.join("; "),
                row.caution.join("; "),
            ];
            for cell in &cells {
                let gap = if cell.is_empty() { "" } else { " " };
                text.push_str(&format!("|{gap}{cell} "));
            }
            text.push_str("|\n");
        }
        text
    }
}

fn tables() -> [(&'static str, Table); 6] {
    let table = Table::default;
    [
        (
            "redis",
            table()
                .with(redis::CHECKS)
                .with(pace::CLOCK_CHECKS)
                .with(pace::ROUND_TRIP_CHECKS),
        ),
        (
            "redlock",
            table()
                .with(redlock::VOTE_CHECKS)
                .with(redlock::CLOCK_CHECKS),
        ),
        (
            "postgres",
            table()
                .with(postgres::CHECKS)
                .with(pace::CLOCK_CHECKS)
                .with(pace::ROUND_TRIP_CHECKS),
        ),
        (
            "etcd",
            table().with(etcd::CHECKS).with(pace::ROUND_TRIP_CHECKS),
        ),
        (
            "zookeeper",
            table()
                .with(zookeeper::ENSEMBLE_CHECKS)
                .with(zookeeper::SERVER_CHECKS)
                .with(pace::ROUND_TRIP_CHECKS),
        ),
        ("sqlite", table().with(sqlite::CHECKS)),
    ]
}

/// Replaces the tables between the marks of the page.
fn rewritten(page: &str) -> String {
    let mut page = page.to_owned();
    for (store, table) in tables() {
        let mark = format!("<!-- rules of {store} -->\n");
        let (before, rest) = page
            .split_once(&mark)
            .expect("the page has a mark for each store");
        let (_, after) = rest
            .split_once("<!-- end -->")
            .expect("and one for its end");
        page = format!("{before}{mark}{}<!-- end -->{after}", table.text());
    }
    page
}

#[test]
fn the_page_says_what_the_rules_say() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let expected = rewritten(&page);
    if std::env::var_os("FENCEPOST_WRITE_PAGE").is_some() {
        std::fs::write(PAGE, &expected).unwrap();
    } else {
        assert!(
            page == expected,
            "docs/doctor.md is out of date: {REGENERATE}"
        );
    }
}

#[test]
fn every_rule_says_what_is_bad_and_where_it_is_read() {
    for (store, table) in tables() {
        for row in &table.0 {
            let cells = [&row.reads, &row.danger, &row.caution];
            let mut all = cells.into_iter().flatten();
            assert!(
                all.all(|cell| !cell.is_empty() && !cell.contains('|')),
                "{store}: {}",
                row.topic
            );
        }
    }
}
