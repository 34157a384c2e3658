//! Which requirement on records fails on which store, and with which words.

use std::sync::Arc;

use crate::record_changes::{
    AlwaysChanged, ChangesAreNotTold, EarlierChangesAreNotTold, OneIsTold,
};
use crate::records::{
    ChecksFirst, CreatesNothing, DroppedReplacementsOverwrite, EveryOtherRead, Finding,
    HasNoRecords, NamesOfAllKinds, NamesOfReplacements, OutdatedTakesEffect, Reading,
    VersionIsTheContent, a_second_earlier, as_text, at_most_64_kib, empty_if_absent,
    of_a_lower_case_name, of_a_short_name, of_one_kind, with_a_floor, with_a_slow_clock,
    without_time,
};
use crate::table::{Line, fails};

pub(crate) const BREACHES_OF_RECORDS: &[Line] = &[
    (
        || Arc::new(HasNoRecords),
        &[fails(
            "the_capabilities_say_whether_there_are_records",
            "records are there if they are promised",
        )],
    ),
    // What a record contains.
    (
        || Arc::new(Reading(empty_if_absent)),
        &[fails(
            "an_absent_record_has_no_value_and_no_version",
            "nothing is there",
        )],
    ),
    (
        || Arc::new(CreatesNothing),
        &[fails("a_replacement_creates_the_record", "it is there")],
    ),
    (
        || Arc::new(Reading(as_text)),
        &[fails("a_record_holds_any_bytes", "256 bytes are read back")],
    ),
    (
        || Arc::new(Reading(at_most_64_kib)),
        &[fails(
            "a_record_holds_any_bytes",
            "200000 bytes are read back",
        )],
    ),
    (
        || Arc::new(Finding(of_one_kind)),
        &[fails(
            "kinds_and_similar_names_are_different_records",
            "mixed up with another one",
        )],
    ),
    (
        || Arc::new(Finding(of_a_lower_case_name)),
        &[
            fails(
                "kinds_and_similar_names_are_different_records",
                "mixed up with another one",
            ),
            fails(
                "hostile_names_are_only_names_of_records",
                "mixed up with another one",
            ),
        ],
    ),
    (
        || Arc::new(Finding(of_a_short_name)),
        &[fails(
            "hostile_names_are_only_names_of_records",
            "mixed up with another one",
        )],
    ),
    // Who may replace it.
    (
        || Arc::new(ChecksFirst),
        &[
            fails(
                "one_of_many_replacements_of_a_version_wins",
                "one rival wins",
            ),
            fails(
                "no_replacement_is_lost_under_load",
                "no replacement is lost",
            ),
        ],
    ),
    (
        || Arc::new(OutdatedTakesEffect),
        &[fails(
            "an_outdated_replacement_changes_nothing",
            "an outdated replacement changes nothing",
        )],
    ),
    (
        || Arc::new(VersionIsTheContent),
        &[fails(
            "a_version_never_returns",
            "each version is a new one",
        )],
    ),
    (
        || Arc::new(DroppedReplacementsOverwrite),
        &[fails(
            "what_follows_a_dropped_replacement_stays",
            "what follows stays",
        )],
    ),
    // Times, epochs and names.
    (
        || Arc::new(Reading(with_a_slow_clock)),
        &[fails(
            "the_time_of_the_store_runs_and_never_goes_back",
            "have passed at the store",
        )],
    ),
    (
        || Arc::new(EveryOtherRead::with(a_second_earlier)),
        &[fails(
            "the_time_of_the_store_runs_and_never_goes_back",
            " after StoreTime",
        )],
    ),
    (
        || Arc::new(EveryOtherRead::with(without_time)),
        &[fails(
            "the_time_of_the_store_runs_and_never_goes_back",
            "the time",
        )],
    ),
    (
        || Arc::new(EveryOtherRead::with(with_a_floor)),
        &[fails(
            "the_epoch_floor_never_goes_back",
            "the floor is 0 after 1000",
        )],
    ),
    (
        || Arc::new(NamesOfAllKinds),
        &[fails("names_are_those_of_the_kind", "none of this kind")],
    ),
    (
        || Arc::new(NamesOfReplacements::default()),
        &[fails("names_are_those_of_the_kind", "each name once")],
    ),
    // The hint.
    (
        || Arc::new(ChangesAreNotTold),
        &[
            fails(
                "a_change_by_another_client_is_noticed",
                "the change is noticed: not within",
            ),
            fails(
                "a_change_of_its_own_is_noticed",
                "the change is noticed: not within",
            ),
            fails(
                "everybody_who_waits_for_a_change_is_told",
                "everybody is told: not within",
            ),
        ],
    ),
    (
        || Arc::new(EarlierChangesAreNotTold),
        &[fails(
            "a_change_before_the_call_is_noticed",
            "the change is noticed: not within",
        )],
    ),
    (
        || Arc::new(OneIsTold::default()),
        &[
            fails(
                "everybody_who_waits_for_a_change_is_told",
                "everybody is told: not within",
            ),
            fails(
                "a_dropped_wait_does_not_hide_later_changes",
                "the other one is told: not within",
            ),
        ],
    ),
    (
        || Arc::new(AlwaysChanged),
        &[fails(
            "waiting_for_a_change_takes_its_time",
            "hints in 200ms without a change",
        )],
    ),
];
