//! Which requirement on elections fails on which store, and with which words.

use std::sync::Arc;

use crate::changes::with_one_epoch;
use crate::grants::{Granting, GrantsToEverybody};
use crate::records::{CreatesNothing, DroppedReplacementsOverwrite, Finding, of_one_name};
use crate::releases::ReleaseDoesNothing;
use crate::table::{Line, fails};
use crate::waiting::DroppedRequestsComeLate;

pub(crate) const BREACHES_OF_ELECTIONS: &[Line] = &[
    (
        || Arc::new(GrantsToEverybody::default()),
        &[
            fails(
                "a_candidate_leads_until_it_resigns",
                "somebody leads already",
            ),
            fails(
                "candidates_lead_one_at_a_time_in_growing_terms",
                "nobody else leads",
            ),
            fails(
                "a_lock_and_an_election_of_one_name_exclude_each_other",
                "somebody leads",
            ),
        ],
    ),
    (
        || Arc::new(Granting(with_one_epoch)),
        &[
            fails("a_candidate_leads_until_it_resigns", "second.term() > term"),
            fails(
                "candidates_lead_one_at_a_time_in_growing_terms",
                // The task that panics first leads for ever.
                "terms grow|nobody else leads",
            ),
            fails(
                "a_leader_that_was_deposed_cannot_proclaim",
                "next.term() > deposed.term()",
            ),
        ],
    ),
    (
        || Arc::new(CreatesNothing),
        &[
            fails("a_value_is_seen_by_others", "a leader"),
            fails(
                "an_observer_starts_with_the_current_state_and_never_goes_back",
                "None",
            ),
        ],
    ),
    (
        || Arc::new(Finding(of_one_name)),
        &[fails("elections_are_apart", "the value of this election")],
    ),
    (
        || Arc::new(ReleaseDoesNothing),
        &[
            fails(
                "an_observer_sees_that_a_leader_is_gone",
                "the next state: not within",
            ),
            fails("an_unhealthy_leader_makes_way", "the campaign: not within"),
            fails(
                "a_dropped_resignation_still_resigns",
                "the campaign: not within",
            ),
        ],
    ),
    (
        || Arc::new(DroppedRequestsComeLate::default()),
        &[
            fails(
                "a_dropped_campaign_leaves_nothing",
                "the campaign: not within",
            ),
            fails(
                "a_dropped_campaign_leaves_nothing_when_contended",
                "the campaign: not within",
            ),
        ],
    ),
    (
        || Arc::new(DroppedReplacementsOverwrite),
        &[fails(
            "a_dropped_proclamation_leaves_one_of_the_values",
            "an earlier proclamation does not come back",
        )],
    ),
];
