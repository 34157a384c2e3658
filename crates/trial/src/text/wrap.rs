//! Wraps lines that are wider than the screen between words, where a terminal would break them in the middle of a word.

/// The column at which the text of a labelled line begins.
const LABELLED: usize = 12;
/// A second field that starts further right does not start a column.
const SECOND_FIELD: usize = 24;
/// How a command to paste starts. Commands are not wrapped; the terminal breaks them, so they can be copied as one line.
const COMMAND: &str = "fencepost ";

/// Wraps every line that is wider than `columns`. Colour codes take no room.
pub fn wrapped(text: &str, columns: usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        wrap(line, columns, &mut wrapped);
        wrapped.push_str(end);
    }
    wrapped
}

fn wrap(line: &str, columns: usize, wrapped: &mut String) {
    let indent = indent(line).min(columns / 2);
    let mut rest = line.to_owned();
    while let Some(at) = last_gap(&rest, indent, columns) {
        let (first, second) = rest.split_at(at);
        wrapped.push_str(first.trim_end());
        wrapped.push('\n');
        rest = format!("{:indent$}{}", "", second.trim_start());
    }
    wrapped.push_str(&rest);
}

/// Returns the indentation of continuation lines: below the second field, as in a labelled line, or slightly to the right of
/// the start if there is no second field.
fn indent(line: &str) -> usize {
    let plain: Vec<char> = visible(line).map(|(_, letter)| letter).collect();
    let margin = plain.iter().take_while(|letter| **letter == ' ').count();
    let gap = plain[margin..].windows(2).position(|two| two == [' ', ' ']);
    let second = gap.map(|gap| {
        let rest = &plain[margin + gap..];
        margin + gap + rest.iter().take_while(|letter| **letter == ' ').count()
    });
    match second.filter(|second| *second <= SECOND_FIELD) {
        _ if margin == LABELLED => LABELLED,
        Some(second) => second,
        None => margin + 2,
    }
}

/// Returns the best place to break a line that is too wide: the last gap between words, right of the indentation, that still
/// fits. `None` if the line fits or has no gap.
fn last_gap(line: &str, indent: usize, columns: usize) -> Option<usize> {
    let command = line.find(COMMAND).unwrap_or(line.len());
    // A remark may follow the command.
    let command_end = line[command..].find("   ").map(|end| command + end);
    let can_part = |at: usize| at <= command || command_end.is_some_and(|end| at >= end);
    let mut gap = None;
    for (column, (at, letter)) in visible(line).enumerate() {
        let is_gap = letter == ' ' && column > indent && can_part(at) && !is_inside(line, at);
        if is_gap && column <= columns {
            gap = Some(at);
        }
        if column >= columns && letter != ' ' {
            return gap;
        }
    }
    None
}

/// Returns whether this gap lies between a number and its unit.
fn is_inside(line: &str, at: usize) -> bool {
    let before = line[..at].ends_with(|letter: char| letter.is_ascii_digit());
    let next = line[at + 1..].split([' ', ',', '.', ';', '\x1b']).next();
    before && next.is_some_and(is_unit)
}

/// Returns whether this word is a unit, which is not separated from its number.
pub(super) fn is_unit(word: &str) -> bool {
    ["ms", "s", "µs", "us", "min", "%", "×", "x"].contains(&word)
}

/// Returns the visible characters with their positions.
fn visible(line: &str) -> impl Iterator<Item = (usize, char)> {
    let mut in_colour = false;
    line.char_indices().filter(move |(_, letter)| {
        let is_visible = !in_colour && *letter != '\x1b';
        in_colour = match letter {
            '\x1b' => true,
            'm' => false,
            _ => in_colour,
        };
        is_visible
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_left_alone() {
        let text = "oversell   all at once\n\n  why       it is so\n";
        assert_eq!(wrapped(text, 22), text);
        let painted = "\x1b[1;31mBROKEN\x1b[0m   it is so";
        assert_eq!(wrapped(painted, 17), painted);
    }

    #[test]
    fn a_line_goes_on_below_its_text() {
        assert_eq!(
            wrapped("  \x1b[2mwhy       \x1b[0mone two three four five\nend", 24),
            "  \x1b[2mwhy       \x1b[0mone two\n            three four\n            five\nend"
        );
        assert_eq!(
            wrapped("oversell   4 processes try to buy", 24),
            "oversell   4 processes\n           try to buy"
        );
    }

    #[test]
    fn a_number_keeps_its_unit() {
        assert_eq!(
            wrapped("it all took 12.4 s, or so", 17),
            "it all took\n  12.4 s, or so"
        );
        assert_eq!(
            wrapped("  lock none (no coordination)   delay 5,000 µs", 45),
            "  lock none (no coordination)   delay\n    5,000 µs"
        );
    }

    #[test]
    fn what_can_be_pasted_stays_whole() {
        let next = "  next      fencepost oversell --lock=safe --stock=1";
        assert_eq!(wrapped(next, 30), next);
        assert_eq!(
            wrapped("  surprise  HELD now: fencepost oversell --lock=none", 30),
            "  surprise  HELD now:\n            fencepost oversell --lock=none"
        );
        assert_eq!(
            wrapped(
                "  fencepost crash --ttl-edge   when the work takes too long",
                42
            ),
            "  fencepost crash --ttl-edge   when the\n    work takes too long"
        );
        let word = "aWordThatIsLongerThanTheScreen";
        assert_eq!(wrapped(word, 10), word);
    }
}
