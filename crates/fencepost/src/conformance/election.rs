//! Requirements on elections: one leader, terms that grow, values that others see, and nothing left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{
    ALWAYS, LONG, NO_PROGRESS, NO_RECORDS, RECORDS, StoreUnderTest, cut_off, eventually,
    fresh_name, soon, table,
};
use crate::backend::Backend;
use crate::claim::{Claim, LockName};
use crate::error::ErrorKind;
use crate::fence::Fence;
use crate::kinds::election::{Election, Leader, Leadership, Observed, Observer};
use crate::lease::LostReason;
use crate::locker::Locker;
use crate::testing::poll_at_most;

table! {
    a_candidate_leads_until_it_resigns: ALWAYS,
    candidates_lead_one_at_a_time_in_growing_terms: ALWAYS,
    a_lock_and_an_election_of_one_name_exclude_each_other: ALWAYS,
    a_value_is_seen_by_others: RECORDS,
    elections_are_apart: RECORDS,
    a_leader_that_was_deposed_cannot_proclaim: ALWAYS,
    an_observer_starts_with_the_current_state_and_never_goes_back: RECORDS,
    an_observer_sees_that_a_leader_is_gone: RECORDS,
    an_unhealthy_leader_makes_way: ALWAYS,
    a_dropped_campaign_leaves_nothing: ALWAYS,
    a_dropped_campaign_leaves_nothing_when_contended: ALWAYS,
    a_dropped_resignation_still_resigns: ALWAYS,
    a_dropped_proclamation_leaves_one_of_the_values: RECORDS,
    a_store_without_values_says_so: NO_RECORDS,
}

fn candidate(backend: &Arc<dyn Backend>, name: &LockName) -> Election {
    let locker = Locker::builder(backend.clone()).ttl(LONG).build();
    let election = locker.expect("valid settings").election(name);
    election.expect("a valid name")
}

fn two_candidates(store: &StoreUnderTest, name: &LockName) -> [Election; 2] {
    [&store.one, &store.other].map(|backend| candidate(backend, name))
}

/// Returns `value` if the store keeps values, and the empty value otherwise.
fn possible<'a>(election: &Election, value: &'a str) -> &'a str {
    if election.keeps_values() { value } else { "" }
}

async fn lead(election: &Election, value: &str) -> Leadership {
    let campaign = election.campaign(possible(election, value));
    soon("the campaign", campaign).await.expect("an answer")
}

async fn resign(leadership: Leadership) {
    let outcome = soon("the resignation", leadership.resign()).await;
    assert!(outcome.is_released(), "{outcome:?}");
}

/// Proclaims a value. Returns `false` if leaders of this store keep the value of their campaign.
async fn proclaimed(leadership: &Leadership, value: &str) -> bool {
    match soon("the proclamation", leadership.proclaim(value)).await {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::Unsupported => false,
        Err(error) => panic!("{error}"),
    }
}

async fn leader(election: &Election) -> Option<Leader> {
    election.leader().await.expect("an answer")
}

/// Checks that nobody leads or wants to, and that somebody can.
async fn assert_vacant(election: &Election) {
    resign(lead(election, "next").await).await;
    eventually("nothing is left", || async {
        let backend = election.backend();
        let record = backend.inspect(election.name()).await;
        record.expect("an answer").is_none()
    })
    .await;
}

async fn a_candidate_leads_until_it_resigns(store: StoreUnderTest) {
    let name = fresh_name("election");
    let [one, other] = two_candidates(&store, &name);
    let first = lead(&one, "one").await;
    for rival in [&one, &other] {
        let asked = rival.try_campaign("").await.expect("an answer");
        assert!(asked.is_none(), "somebody leads already");
    }
    let asked = other.campaign_within("", Duration::from_millis(500)).await;
    assert!(asked.expect("not an error").is_none());
    let term = first.term();
    resign(first).await;
    let second = lead(&other, "other").await;
    assert!(second.term() > term);
    resign(second).await;
}

async fn candidates_lead_one_at_a_time_in_growing_terms(store: StoreUnderTest) {
    const TERMS: usize = 5;
    let name = fresh_name("election-crowd");
    let candidates = two_candidates(&store, &name);
    let leading = Arc::new(AtomicBool::new(false));
    let latest = Arc::new(AtomicU64::new(0));
    let tasks = (0..4).map(|task| {
        let (election, leading, latest) = (
            candidates[task % 2].clone(),
            leading.clone(),
            latest.clone(),
        );
        tokio::spawn(async move {
            for _ in 0..TERMS {
                let leadership = lead(&election, "crowd").await;
                assert!(!leading.swap(true, Ordering::SeqCst), "nobody else leads");
                let term = leadership.term().as_i64().cast_unsigned();
                assert!(latest.swap(term, Ordering::SeqCst) < term, "terms grow");
                tokio::task::yield_now().await;
                leading.store(false, Ordering::SeqCst);
                resign(leadership).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon("all terms", task).await.expect("no panic");
    }
}

async fn a_lock_and_an_election_of_one_name_exclude_each_other(store: StoreUnderTest) {
    let name = fresh_name("election-lock");
    let election = candidate(&store.one, &name);
    let locker = Locker::builder(store.other.clone()).ttl(LONG).build();
    let locker = locker.expect("valid settings");
    let leadership = lead(&election, "one").await;
    let asked = locker.try_acquire(&name).await.expect("an answer");
    assert!(asked.is_none(), "somebody leads");
    resign(leadership).await;
    let guard = soon("the lock", locker.acquire(&name)).await;
    let guard = guard.expect("an answer");
    let asked = election.try_campaign("").await.expect("an answer");
    assert!(asked.is_none(), "somebody holds the lock");
    if election.keeps_values() {
        assert_eq!(leader(&election).await, None, "a holder is not a leader");
    }
    assert!(guard.release().await.is_released());
}

async fn a_value_is_seen_by_others(store: StoreUnderTest) {
    let name = fresh_name("election-value");
    let [one, other] = two_candidates(&store, &name);
    assert_eq!(leader(&other).await, None);
    let longest = "v".repeat(Election::MAX_VALUE_BYTES);
    let leadership = lead(&one, "first").await;
    for value in [
        "second",
        "",
        " ",
        "41 spaces",
        "two\nlines",
        "κλειδί 🔑",
        &longest,
    ] {
        if !proclaimed(&leadership, value).await {
            break;
        }
        assert_eq!(&*leadership.value(), value);
        let seen = leader(&other).await.expect("a leader");
        assert_eq!((&*seen.value, seen.term), (value, leadership.term()));
    }
    let error = leadership.proclaim(longest + "v").await;
    assert_eq!(error.expect_err("too long").kind(), ErrorKind::InvalidInput);
    resign(leadership).await;
    assert_eq!(leader(&other).await, None);
    // The value of a leader is not the value of the next one.
    let next = lead(&other, "next").await;
    let seen = leader(&one).await.expect("a leader");
    assert_eq!((&*seen.value, seen.term), ("next", next.term()));
    resign(next).await;
}

async fn elections_are_apart(store: StoreUnderTest) {
    let names = [fresh_name("election-a"), fresh_name("election-b")];
    let [one, other] = &names;
    let (one, other) = (candidate(&store.one, one), candidate(&store.other, other));
    let leaderships = [lead(&one, "one").await, lead(&other, "other").await];
    for (election, value) in [(&one, "one"), (&other, "other")] {
        let seen = leader(election).await.map(|leader| leader.value);
        assert_eq!(seen.as_deref(), Some(value), "the value of this election");
    }
    for leadership in leaderships {
        resign(leadership).await;
    }
}

async fn a_leader_that_was_deposed_cannot_proclaim(store: StoreUnderTest) {
    let name = fresh_name("election-deposed");
    let [one, other] = two_candidates(&store, &name);
    let deposed = lead(&one, "deposed").await;
    let claim = Claim::new(name.clone(), deposed.owner(), LONG);
    store.other.release(&claim).await.expect("an answer");
    let next = lead(&other, "next").await;
    assert!(next.term() > deposed.term());
    if one.keeps_values() {
        let error = deposed.proclaim("still me").await;
        let kind = error.expect_err("deposed").kind();
        let is_refused = matches!(kind, ErrorKind::Lost | ErrorKind::Unsupported);
        assert!(is_refused, "{kind:?}");
        assert_eq!(&*leader(&one).await.expect("a leader").value, "next");
    }
    resign(next).await;
}

/// Returns the next state, which must come soon.
async fn next(observer: &mut Observer) -> Observed {
    soon("the next state", observer.next()).await
}

/// Observes until somebody leads with this value, and returns the term. Checks that terms never go back.
async fn until_value(observer: &mut Observer, value: &str, mut latest: Fence) -> Fence {
    loop {
        match next(observer).await {
            Observed::Leader(leader) => {
                assert!(leader.term >= latest, "{} after {latest}", leader.term);
                latest = leader.term;
                if *leader.value == *value {
                    return latest;
                }
            }
            Observed::None => {}
            Observed::Disconnected(error) => panic!("{error}"),
        }
    }
}

async fn an_observer_starts_with_the_current_state_and_never_goes_back(store: StoreUnderTest) {
    let name = fresh_name("election-observer");
    let candidates = two_candidates(&store, &name);
    let mut early = candidates[0].observe().expect("values");
    assert!(matches!(next(&mut early).await, Observed::None));
    let first = lead(&candidates[0], "0").await;
    let mut late = candidates[1].observe().expect("values");
    match next(&mut late).await {
        Observed::Leader(leader) => assert_eq!(leader.term, first.term()),
        other => panic!("{other:?}"),
    }
    let start = first.term();
    let watching = [early, late].map(|mut observer| {
        tokio::spawn(async move { until_value(&mut observer, "last", start).await })
    });
    resign(first).await;
    for term in 1..8 {
        let leadership = lead(&candidates[term % 2], &term.to_string()).await;
        proclaimed(&leadership, "changed").await;
        resign(leadership).await;
    }
    let last = lead(&candidates[0], "last").await;
    for observer in watching {
        let seen = soon("the last leader", observer).await.expect("no panic");
        assert_eq!(seen, last.term());
    }
    resign(last).await;
}

async fn an_observer_sees_that_a_leader_is_gone(store: StoreUnderTest) {
    let name = fresh_name("election-gone");
    let [one, other] = two_candidates(&store, &name);
    let leadership = lead(&one, "one").await;
    let mut observer = other.observe().expect("values");
    assert!(matches!(next(&mut observer).await, Observed::Leader(_)));
    // Dropped and not resigned: nobody tells the observers.
    drop(leadership);
    assert!(matches!(next(&mut observer).await, Observed::None));
}

async fn an_unhealthy_leader_makes_way(store: StoreUnderTest) {
    let name = fresh_name("election-health");
    let [one, other] = two_candidates(&store, &name);
    let healthy = Arc::new(AtomicBool::new(true));
    let check = {
        let healthy = healthy.clone();
        move || std::future::ready(healthy.load(Ordering::SeqCst))
    };
    let one = one.health_check(Duration::from_millis(20), check);
    let leadership = lead(&one, "one").await;
    let behind = tokio::spawn(async move { lead(&other, "other").await });
    healthy.store(false, Ordering::SeqCst);
    let lost = soon("the loss", leadership.lost()).await;
    assert_eq!(lost.reason(), LostReason::Unhealthy);
    assert_eq!(leadership.valid_for(), Duration::ZERO);
    assert!(!behind.is_finished(), "the leader has not let go yet");
    let term = leadership.term();
    drop(leadership);
    let next = soon("the next leader", behind).await.expect("no panic");
    assert!(next.term() > term);
    assert!(one.try_campaign("").await.expect("an answer").is_none());
    resign(next).await;
    let asked = one.campaign_within("", Duration::from_millis(100)).await;
    assert!(asked.expect("not an error").is_none(), "it is not healthy");
    healthy.store(true, Ordering::SeqCst);
    resign(lead(&one, "one").await).await;
}

async fn a_dropped_campaign_leaves_nothing(store: StoreUnderTest) {
    for polls in 1.. {
        let name = fresh_name("election-cancel");
        let [one, other] = two_candidates(&store, &name);
        let value = possible(&one, "dropped");
        let done = cut_off(polls, one.campaign(value)).await;
        assert_vacant(&other).await;
        if done {
            break;
        }
    }
}

/// Drops campaigns while somebody else leads, and while that leader resigns.
async fn a_dropped_campaign_leaves_nothing_when_contended(store: StoreUnderTest) {
    for resigns in [false, true] {
        for polls in 1.. {
            let name = fresh_name("election-cancel-contended");
            let [one, other] = two_candidates(&store, &name);
            let held = lead(&other, "held").await;
            let value = possible(&one, "dropped");
            let campaign = poll_at_most(polls, one.campaign(value));
            let done = if resigns {
                let (cut, ()) = tokio::join!(soon("the campaign", campaign), resign(held));
                cut.is_some()
            } else {
                let cut = tokio::time::timeout(NO_PROGRESS, campaign).await;
                resign(held).await;
                !matches!(cut, Ok(None))
            };
            assert_vacant(&other).await;
            if done {
                break;
            }
        }
    }
}

async fn a_dropped_resignation_still_resigns(store: StoreUnderTest) {
    for polls in 1.. {
        let name = fresh_name("election-cancel-resign");
        let [one, other] = two_candidates(&store, &name);
        let leadership = lead(&one, "one").await;
        let done = cut_off(polls, leadership.resign()).await;
        assert_vacant(&other).await;
        if done {
            break;
        }
    }
}

async fn a_dropped_proclamation_leaves_one_of_the_values(store: StoreUnderTest) {
    for polls in 1.. {
        let name = fresh_name("election-cancel-proclaim");
        let [one, other] = two_candidates(&store, &name);
        let leadership = lead(&one, "old").await;
        let done = cut_off(polls, leadership.proclaim("new")).await;
        let seen = leader(&other).await.expect("a leader").value;
        assert!(matches!(&*seen, "old" | "new"), "{seen}");
        let last = match proclaimed(&leadership, "newer").await {
            true => "newer",
            false => "old",
        };
        for _ in 0..15 {
            let seen = leader(&other).await.expect("a leader").value;
            assert_eq!(&*seen, last, "an earlier proclamation does not come back");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        resign(leadership).await;
        if done {
            break;
        }
    }
}

async fn a_store_without_values_says_so(store: StoreUnderTest) {
    let name = fresh_name("election-without");
    let [one, other] = two_candidates(&store, &name);
    let errors = [
        other.campaign("value").await.map(drop),
        other.leader().await.map(drop),
        other.observe().map(drop),
    ];
    let leadership = lead(&one, "").await;
    for answer in errors
        .into_iter()
        .chain([leadership.proclaim("value").await])
    {
        let error = answer.expect_err("there are no values");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("keeps no values"), "{error}");
    }
    resign(leadership).await;
}
