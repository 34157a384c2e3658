//! The lab of `serve --lab`: trials that the page can start, and a scratch shop for load tests.

use std::sync::Arc;

use fencepost::stores::kinds::REDIS;
use fencepost_checkout::http::ExtraRoutes;
use fencepost_checkout::service::Service;
use fencepost_trial::store::TrialStore;

use crate::command_error::CommandError;
use crate::exit;
use crate::store::LockStore;

mod lock_strategy;
mod routes;
mod sale_trials;
mod scratch_shop;

use scratch_shop::ScratchShop;

/// Returns the routes of a lab that is off.
pub(super) fn off() -> ExtraRoutes {
    routes::off()
}

/// Opens the scratch shop and returns its routes. The shop uses the lock store if that can hold products, and otherwise a separate file.
pub(super) async fn open(store: &LockStore) -> Result<ExtraRoutes, CommandError> {
    let trial_store = match store {
        LockStore::Address(address) => TrialStore::named(address.as_str())
            .filter(|store| store.is(&REDIS))
            .unwrap_or_default(),
        LockStore::Sqlite(_) => TrialStore::sqlite(),
    };
    let opened = tokio::task::spawn_blocking(move || ScratchShop::open(&trial_store)).await;
    let words = match opened {
        Ok(Ok(shop)) => return Ok(routes::of(shop)),
        Ok(Err(failure)) => failure.to_string(),
        Err(error) => error.to_string(),
    };
    Err(
        CommandError::new(exit::STORE, "cannot create the shop for load tests")
            .at(format_args!("{}: {words}", store.place()))
            .effect("nothing is served"),
    )
}

/// Runs the trials that the page starts.
pub(super) fn offer_trials(service: Service) -> Service {
    service.with_lab(Arc::new(sale_trials::SaleTrials))
}
