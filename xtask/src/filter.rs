//! `--filter NAME`: selects items by name, with the same meaning in every task.

use anyhow::{Result, bail};

/// Returns the items that the filters select, in the order of the items; all of them without a filter. A filter selects the item with this
/// name or, if there is none, those whose name contains it.
///
/// # Errors
/// Returns an error if a filter selects nothing.
pub(crate) fn chosen<'a, T>(
    items: &'a [T],
    name_of: impl Fn(&T) -> &str,
    filters: &[String],
) -> Result<Vec<&'a T>> {
    let names: Vec<&str> = items.iter().map(&name_of).collect();
    for filter in filters {
        if !names.iter().any(|name| name.contains(filter.as_str())) {
            bail!(
                "no name contains '{filter}'; there are: {}",
                names.join(", ")
            );
        }
    }
    let selects = |filter: &String, name: &str| {
        if names.contains(&filter.as_str()) {
            name == filter
        } else {
            name.contains(filter.as_str())
        }
    };
    let is_chosen =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| selects(filter, name));
    let chosen = items.iter().filter(|item| is_chosen(name_of(item)));
    Ok(chosen.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["line", "line_model", "storm"];

    fn names(filters: &[&str]) -> Result<Vec<&'static str>> {
        let filters: Vec<String> = filters.iter().map(|filter| (*filter).into()).collect();
        let chosen = chosen(&NAMES, |name| name, &filters)?;
        Ok(chosen.into_iter().copied().collect())
    }

    #[test]
    fn a_whole_name_selects_one_even_if_it_is_part_of_another() {
        assert_eq!(names(&["line"]).unwrap(), ["line"]);
        assert_eq!(names(&["lin"]).unwrap(), ["line", "line_model"]);
        assert_eq!(names(&[]).unwrap(), NAMES);
    }

    #[test]
    fn every_filter_selects_and_the_order_is_that_of_the_items() {
        assert_eq!(names(&["storm", "line"]).unwrap(), ["line", "storm"]);
        assert_eq!(names(&["mod", "model"]).unwrap(), ["line_model"]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_list() {
        let error = names(&["line", "elsewhere"]).unwrap_err().to_string();
        assert!(error.contains("'elsewhere'"), "{error}");
        assert!(error.ends_with("line, line_model, storm"), "{error}");
    }
}
