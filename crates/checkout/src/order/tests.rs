use super::*;
use serde_json::json;

fn request(shops: serde_json::Value) -> Result<OrderRequest, serde_json::Error> {
    serde_json::from_value(json!({"cart_id": "c", "user_id": "u", "shop_orders": shops}))
}

fn product(id: &str, shop: &str, price_cents: i64) -> Product {
    Product {
        product_id: Id::new(id).unwrap(),
        shop_id: Id::new(shop).unwrap(),
        name: id.to_uppercase(),
        price_cents,
        stock: 5,
        reserved: 0,
        sold: 0,
        put_in: 5,
        version: 0,
    }
}

#[test]
fn no_quantity_but_a_small_whole_number_is_ordered() {
    for quantity in [
        json!(0),
        json!(-1),
        json!(9_223_372_036_854_775_808_u64),
        json!(1.5),
        json!("2"),
        json!(null),
        json!(1_001),
    ] {
        let shops =
            json!([{"shop_id": "s", "item_products": [{"product_id": "p", "quantity": quantity}]}]);
        assert!(request(shops).is_err(), "{quantity}");
    }
}

/// Before they had a name of their own, the field promised ids. Clients and stored orders of that time are still read.
#[test]
fn orders_of_shops_have_one_name_and_an_earlier_one_is_read() {
    let shops = json!([{"shop_id": "s", "item_products": [{"product_id": "p", "quantity": 1}]}]);
    let now = request(shops.clone()).unwrap();
    let earlier = json!({"cart_id": "c", "user_id": "u", "shop_order_ids": shops});
    let earlier: OrderRequest = serde_json::from_value(earlier).unwrap();
    assert_eq!(now, earlier);
    // The digest of an idempotency key is that of this text, whatever the client called it.
    let text = serde_json::to_string(&earlier).unwrap();
    assert_eq!(text, serde_json::to_string(&now).unwrap());
    assert!(!text.contains("shop_order_ids"), "{text}");
    let basket = Basket::new(now).unwrap();
    let priced = PricedBasket::price(&basket, &[product("p", "s", 5)]).unwrap();
    let written = serde_json::to_string(&priced).unwrap();
    let stored = written.replace("shop_orders", "shop_order_ids");
    assert_ne!(written, stored);
    let read: PricedBasket = serde_json::from_str(&stored).unwrap();
    assert_eq!(read, priced);
}

#[test]
fn lines_are_sorted_so_that_nobody_deadlocks() {
    let shops = json!([
        {"shop_id": "s", "item_products": [{"product_id": "z", "quantity": 1}, {"product_id": "b", "quantity": 2}]},
        {"shop_id": "t", "item_products": [{"product_id": "a", "quantity": 3}]},
    ]);
    let basket = Basket::new(request(shops).unwrap()).unwrap();
    let ids: Vec<&str> = basket
        .lines()
        .iter()
        .map(|line| line.product_id.as_str())
        .collect();
    assert_eq!(ids, ["a", "b", "z"]);
}

#[test]
fn an_order_lists_each_product_once() {
    let item = json!({"product_id": "p", "quantity": 1});
    let shops = json!([
        {"shop_id": "s", "item_products": [item]},
        {"shop_id": "t", "item_products": [item]},
    ]);
    let twice = NotABasket::Twice(Id::new("p").unwrap());
    assert_eq!(Basket::new(request(shops).unwrap()), Err(twice));
}

#[test]
fn an_order_is_neither_empty_nor_endless() {
    let empty = |shops| Basket::new(request(shops).unwrap()) == Err(NotABasket::Empty);
    assert!(empty(json!([])));
    assert!(empty(json!([{"shop_id": "s", "item_products": []}])));
    let items: Vec<_> = (0..101)
        .map(|n| json!({"product_id": format!("p{n}"), "quantity": 1}))
        .collect();
    let shops = json!([{"shop_id": "s", "item_products": items}]);
    assert_eq!(
        Basket::new(request(shops).unwrap()),
        Err(NotABasket::TooLong)
    );
}

#[test]
fn prices_add_up_per_shop_and_in_all() {
    let shops = json!([
        {"shop_id": "s", "item_products": [{"product_id": "b", "quantity": 2}, {"product_id": "a", "quantity": 1}]},
        {"shop_id": "t", "item_products": [{"product_id": "c", "quantity": 3}]},
    ]);
    let basket = Basket::new(request(shops).unwrap()).unwrap();
    let products = [
        product("a", "s", 100),
        product("b", "s", 10),
        product("c", "t", 1),
    ];
    let priced = PricedBasket::price(&basket, &products).unwrap();
    assert_eq!((priced.total_items, priced.total_cents), (6, 123));
    assert_eq!(priced.shop_orders[0].total_cents, 120);
    assert_eq!(
        priced.shop_orders[0].item_products[0].product_id.as_str(),
        "b"
    );

    let missing = PricedBasket::price(&basket, &products[1..]);
    assert_eq!(
        missing,
        Err(NotPriced::Unknown(vec![Id::new("a").unwrap()]))
    );
    let moved = [
        product("a", "t", 100),
        product("b", "s", 10),
        product("c", "t", 1),
    ];
    let elsewhere = PricedBasket::price(&basket, &moved);
    assert_eq!(
        elsewhere,
        Err(NotPriced::OtherShop(vec![Id::new("a").unwrap()]))
    );
}
