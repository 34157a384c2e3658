//! Tests that `docs/checkout.md` says what the service does.

use serde_json::{Value, json};

use crate::http::{Answer, Client};
use crate::stage::Stage;

const PAGE: &str = include_str!("../../../../docs/checkout.md");

/// Returns the first code block in this language below the heading.
fn block<'a>(heading: &str, language: &str) -> &'a str {
    let (_, below) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, block) = below.split_once(&format!("```{language}\n")).unwrap();
    block.split_once("```").unwrap().0
}

/// Splits a command into words, as a shell does: quotes keep blanks.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (number, part) in command.split('\'').enumerate() {
        if number % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        for letter in part.chars() {
            match letter {
                ' ' => words.push(String::new()),
                letter => words.last_mut().unwrap().push(letter),
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Sends the request of a `curl` command to this service, at the address that the page has.
fn curl(client: Client, command: &str) -> Answer {
    let mut words = words(command).into_iter();
    assert_eq!(words.next().unwrap(), "curl");
    let (mut headers, mut path, mut body, mut method) = (vec![], None, String::new(), None);
    while let Some(word) = words.next() {
        match &*word {
            "-H" => headers.extend(words.next()),
            "-d" => body = words.next().unwrap(),
            "-X" => method = words.next(),
            url => path = url.strip_prefix("http://127.0.0.1:8080").map(str::to_owned),
        }
    }
    // With -d, curl sends a POST.
    let method = method.unwrap_or_else(|| if body.is_empty() { "GET" } else { "POST" }.into());
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    client
        .send(&method, &path.unwrap(), &headers, &body)
        .unwrap()
}

#[test]
fn the_first_order_of_the_page_is_made() {
    let commands = block("A first order", "sh").replace("\\\n", "");
    let [put_in, order, confirm] = commands.lines().collect::<Vec<_>>()[..] else {
        panic!("{commands}");
    };
    let stage = Stage::new();
    let service = stage.serve("");
    let answer = curl(service.client, put_in);
    assert_eq!(answer.status, 201, "{answer:?}");
    let answer = curl(service.client, order);
    assert_eq!(answer.status, 201, "{answer:?}");
    let made = answer.json();
    let id = made["order_id"].as_str().unwrap();
    assert_eq!(
        answer.header("location"),
        Some(&*format!("/v1/orders/{id}"))
    );
    let mut shown: Value = serde_json::from_str(block("A first order", "json")).unwrap();
    for different in ["order_id", "created_at", "reserved_until"] {
        assert!(shown[different].is_string(), "{different}");
        shown[different] = made[different].clone();
    }
    assert_eq!(made, shown, "{made:#}");
    let answer = curl(service.client, &confirm.replace("ORDER_ID", id));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["order_status"], json!("confirmed"));
}

#[test]
fn every_event_is_on_the_page() {
    let stage = Stage::new();
    let service = stage.serve("");
    let description = service.client.get("/openapi.json").json();
    let events = description["components"]["schemas"]["Event"]["oneOf"].clone();
    let (_, below) = PAGE.split_once("\n### Events\n").unwrap();
    let (table, _) = below.split_once("\n### ").unwrap();
    let events = events.as_array().unwrap();
    assert_eq!(events.len(), 9);
    for event in events {
        let kind = event["properties"]["type"]["enum"][0].as_str().unwrap();
        assert!(table.contains(&format!("\n| `{kind}` | ")), "{kind}");
    }
}

#[test]
fn every_metric_of_the_service_is_on_the_page() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    assert_eq!(service.order(&[("lamp", 1)]).status, 201);
    let metrics = service.client.get("/metrics").body;
    let kinds = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let names = kinds.filter_map(|line| line.split(' ').next());
    let own: Vec<&str> = names.filter(|name| name.starts_with("checkout_")).collect();
    assert!(own.len() > 10, "{metrics}");
    for name in own {
        let rows = PAGE.lines().filter(|line| line.starts_with("| `checkout_"));
        let mut cells = rows.filter_map(|row| row.split('|').nth(1));
        assert!(
            cells.any(|cell| cell.contains(&format!("`{name}`"))),
            "{name}"
        );
    }
}
