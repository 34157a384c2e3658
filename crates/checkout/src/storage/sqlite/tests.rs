//! Tests of what only an SQLite file that was changed from outside shows.

use serde_json::json;

use super::*;

#[tokio::test]
async fn a_key_whose_order_is_missing_makes_no_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let storage = SqliteStorage::open(&path).unwrap();
    let lamp = Id::new("lamp").unwrap();
    let new = json!({"shop_id": "s", "name": "Lamp", "price_cents": 1, "stock": 5});
    let new: NewProduct = serde_json::from_value(new).unwrap();
    storage.add_product(new, lamp.clone()).await.unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    let key = "INSERT INTO checkout_keys (key, fingerprint, order_id) VALUES ('k', 'f', 'missing')";
    file.execute(key, []).unwrap();
    let request = json!({
        "cart_id": "c",
        "user_id": "u",
        "shop_orders": [{
            "shop_id": "s",
            "item_products": [{ "product_id": "lamp", "quantity": 1 }],
        }],
    });
    let placement = Placement {
        order_id: Id::new("order").unwrap(),
        key: Some(Key {
            key: "k".into(),
            fingerprint: "f".into(),
        }),
        basket: Basket::new(serde_json::from_value(request).unwrap()).unwrap(),
        reserve_for: Duration::from_secs(60),
        guarding: Guarding::Rows,
    };
    let placed = storage.place(placement).await.unwrap();
    assert_eq!(placed, Placed::Conflict);
    let lamp = storage.product(&lamp).await.unwrap().unwrap();
    assert_eq!((lamp.stock, lamp.reserved), (5, 0));
}
