//! The two or three events that prove a violation in a sale.

use std::collections::HashMap;

use crate::sale::facts::{Attempt, Facts, Reading};
use crate::sale::fences::FenceFault;
use crate::text::numbers::{count, in_words};
use crate::verdict::{Cited, Evidence};

/// Returns the events that prove a violation: the order that used up the stock and the one after it, or two orders for the same
/// unit; then the lab's own reading.
pub(super) fn proof(facts: &Facts) -> Vec<Evidence> {
    let mut proof = if facts.sold_beyond().least > 0 {
        one_too_many(facts)
    } else {
        same_unit(facts)
    };
    if let Some(reading) = facts.final_reading {
        proof.push(final_stock(facts, reading));
    }
    proof
}

/// Returns the purchases whose fences break the promise to grow.
pub(super) fn of_fences(fault: FenceFault<'_>) -> Vec<Evidence> {
    let purchases = fault.purchases().into_iter();
    let shown = purchases.map(|purchase| Evidence {
        sentence: format!("{} answers its purchase", purchase.who),
        what: "purchased".into(),
        ..sold(
            purchase,
            format!("fence {}", purchase.fence().unwrap_or("none")),
        )
    });
    shown.collect()
}

fn one_too_many(facts: &Facts) -> Vec<Evidence> {
    let stock = usize::try_from(facts.initial).unwrap_or(0);
    let remark = |number: usize| match number {
        _ if stock == 0 => "there was nothing to sell".to_owned(),
        number if number == stock => "the stock is used up".to_owned(),
        _ => "one more than there was".to_owned(),
    };
    let orders = facts.orders().enumerate().skip(stock.saturating_sub(1));
    orders
        .take(if stock == 0 { 1 } else { 2 })
        .map(|(index, order)| {
            let number = index + 1;
            sold(
                order,
                format!("order {}: {}", count(number as i64), remark(number)),
            )
        })
        .collect()
}

/// Returns two orders that read the same number, as they reported. The verdict does not rest on this; it only illustrates the
/// violation.
fn same_unit(facts: &Facts) -> Vec<Evidence> {
    let read = |order: &Attempt| order.purchase().and_then(|purchase| purchase.before);
    let mut seen: HashMap<i64, &Attempt> = HashMap::new();
    let pair = facts.orders().find_map(|order| {
        let before = read(order)?;
        let first = seen.insert(before, order)?;
        Some((first, order, before))
    });
    let Some((first, twin, before)) = pair else {
        return Vec::new();
    };
    let wrote = |order: &Attempt| {
        let after = order.purchase().and_then(|purchase| purchase.after);
        let after = after.unwrap_or_else(|| before.saturating_sub(order.quantity.into()));
        format!("it read {}, wrote {}", count(before), count(after))
    };
    vec![
        sold(first, wrote(first)),
        sold(twin, format!("{}: the same unit", wrote(twin))),
    ]
}

fn sold(order: &Attempt, shows: String) -> Evidence {
    Evidence {
        event: order.event,
        cited: Cited::Event,
        at_ns: order.answered_ns,
        who: order.who.clone(),
        what: "sold".into(),
        sentence: format!("{} buys a unit", order.who),
        shows,
    }
}

fn final_stock(facts: &Facts, reading: Reading) -> Evidence {
    let sum = format!(
        "{} − {} = {}",
        count(facts.initial),
        facts.sold(),
        facts.left_by_orders()
    );
    let shows = match (facts.lost_updates(), facts.vanished()) {
        (0, 0) => format!("{sum}: the stock is below zero"),
        (0, gone) => format!(
            "{sum}: {} gone without an order",
            in_words(gone, "unit is", "units are")
        ),
        (lost, _) => format!("{sum}: {} lost", in_words(lost, "update", "updates")),
    };
    Evidence {
        event: reading.event,
        cited: Cited::Event,
        at_ns: reading.at_ns,
        who: "lab".into(),
        what: format!("stock {}", reading.units),
        sentence: format!("the lab reads the stock: {}", count(reading.units)),
        shows,
    }
}
