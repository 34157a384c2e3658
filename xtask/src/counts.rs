//! Counts passed, failed and skipped tests by parsing the summary lines of the test runners.

use std::fmt;
use std::ops::AddAssign;

/// How many tests passed, failed and were skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Not run: ignored, or excluded by a filter.
    pub(crate) skipped: u64,
}

impl Counts {
    pub(crate) const PASSED: Self = Self {
        passed: 1,
        failed: 0,
        skipped: 0,
    };
    pub(crate) const FAILED: Self = Self {
        passed: 0,
        failed: 1,
        skipped: 0,
    };
    pub(crate) const SKIPPED: Self = Self {
        passed: 0,
        failed: 0,
        skipped: 1,
    };

    /// Returns whether at least one test ran and all passed.
    pub(crate) fn are_good(self) -> bool {
        self.passed > 0 && self.failed == 0
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.skipped += more.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

/// The test runner whose summary lines are parsed. Only one, because under nextest the output of a failed test ends with a
/// summary line of libtest, which must not be counted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestRunner {
    /// `cargo test`: one summary line for each test binary. libtest-mimic prints the same.
    Libtest,
    /// `cargo nextest`: one summary line in all.
    Nextest,
}

/// Parses the output of one run.
#[derive(Debug)]
pub(crate) struct Tally {
    runner: TestRunner,
    counts: Counts,
}

impl Tally {
    pub(crate) fn new(runner: TestRunner) -> Self {
        Self {
            runner,
            counts: Counts::default(),
        }
    }

    /// Parses a line, which must not contain colours.
    pub(crate) fn read(&mut self, line: &str) {
        match self.runner {
            TestRunner::Libtest => {
                if let Some(counts) = libtest(line) {
                    self.counts += counts;
                }
            }
            TestRunner::Nextest => {
                if let Some(counts) = nextest(line) {
                    self.counts = counts;
                }
            }
        }
    }

    /// Returns the counts of a finished run. A runner that failed without a failed test (the build failed, or a test binary crashed) counts
    /// as one failure.
    pub(crate) fn close(self, success: bool) -> Counts {
        let mut counts = self.counts;
        if !success && counts.failed == 0 {
            counts.failed = 1;
        }
        counts
    }
}

/// Parses `test result: FAILED. 1 passed; 2 failed; 3 ignored; 0 measured; 4 filtered out; finished in 0.00s`
fn libtest(line: &str) -> Option<Counts> {
    let result = line.strip_prefix("test result: ")?;
    let (_verdict, result) = result.split_once(". ")?;
    let mut counts = Counts::default();
    for (number, label) in result.split(';').filter_map(number_and_label) {
        match label {
            "passed" | "measured" => counts.passed += number,
            "failed" => counts.failed += number,
            "ignored" | "filtered out" => counts.skipped += number,
            _ => {}
        }
    }
    Some(counts)
}

/// Parses `     Summary [   0.013s] 3 tests run: 2 passed (1 slow), 1 failed, 4 skipped`
fn nextest(line: &str) -> Option<Counts> {
    let summary = line.trim_start().strip_prefix("Summary [")?;
    let (_time, summary) = summary.split_once(']')?;
    let (_run, summary) = summary.split_once(" run: ")?;
    let mut counts = Counts::default();
    for (number, label) in without_parentheses(summary)
        .split(',')
        .filter_map(number_and_label)
    {
        match label {
            "passed" => counts.passed += number,
            "skipped" => counts.skipped += number,
            // Failed, timed out, could not be started: everything else counts as a failure.
            _ => counts.failed += number,
        }
    }
    Some(counts)
}

fn number_and_label(part: &str) -> Option<(u64, &str)> {
    let (number, label) = part.trim().split_once(' ')?;
    Some((number.parse().ok()?, label.trim()))
}

/// Removes remarks such as `(1 slow, 2 leaky)`, which count tests a second time.
fn without_parentheses(text: &str) -> String {
    let mut depth = 0;
    let outside = |c: &char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => return depth == 0,
        }
        false
    };
    text.chars().filter(outside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::without_escapes;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Counts {
        Counts {
            passed,
            failed,
            skipped,
        }
    }

    fn read(runner: TestRunner, output: &str) -> Counts {
        let mut tally = Tally::new(runner);
        output
            .lines()
            .for_each(|line| tally.read(&without_escapes(line)));
        tally.close(true)
    }

    #[test]
    fn the_closing_lines_of_libtest_are_added_up() {
        let recorded = "
running 7 tests
test bad ... FAILED
test result: FAILED. 4 passed; 1 failed; 1 ignored; 0 measured; 1 filtered out; finished in 2.50s
test result: \x1b[32mok\x1b[m. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
error: 1 target failed:
    `--lib`";
        assert_eq!(read(TestRunner::Libtest, recorded), counts(5, 1, 2));
    }

    #[test]
    fn the_closing_line_of_nextest_is_read_with_all_its_remarks() {
        for (recorded, expected) in [
            (
                "     Summary [   0.000s] 0 tests run: 0 passed, 10 skipped",
                counts(0, 0, 10),
            ),
            (
                "     Summary [   0.006s] 1 test run: 1 passed, 0 skipped",
                counts(1, 0, 0),
            ),
            (
                "     Summary [   4.213s] 8 tests run: 5 passed (1 slow, 1 leaky), 2 failed, 1 timed out, 2 skipped",
                counts(5, 3, 2),
            ),
            (
                "     Summary [   1.100s] 2/5 tests run: 0 passed, 1 failed (1 due to being leaky), 1 exec failed, 0 skipped",
                counts(0, 2, 0),
            ),
            (
                "\x1b[31;1m     Summary\x1b[0m [   4.213s] \x1b[1m8\x1b[0m tests run: \x1b[1m5\x1b[0m \x1b[32;1mpassed\x1b[0m (\x1b[1m1\x1b[0m \x1b[33;1mslow\x1b[0m), \x1b[1m3\x1b[0m \x1b[31;1mfailed\x1b[0m, \x1b[1m2\x1b[0m \x1b[33;1mskipped\x1b[0m",
                counts(5, 3, 2),
            ),
        ] {
            assert_eq!(read(TestRunner::Nextest, recorded), expected, "{recorded}");
        }
    }

    #[test]
    fn a_failed_test_under_nextest_is_counted_once() {
        let recorded = "
        FAIL [   0.005s] (7/8) rec::mimic t2
    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s
test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s
     Summary [   4.213s] 2 tests run: 1 passed, 1 failed, 0 skipped";
        assert_eq!(read(TestRunner::Nextest, recorded), counts(1, 1, 0));
    }

    #[test]
    fn a_runner_that_fails_without_a_failed_test_is_a_failure() {
        let tally = Tally::new(TestRunner::Nextest);
        assert_eq!(tally.close(false), Counts::FAILED);
        let mut tally = Tally::new(TestRunner::Libtest);
        tally.read("test result: FAILED. 0 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s");
        assert_eq!(tally.close(false), counts(0, 3, 0));
    }

    #[test]
    fn nothing_run_is_not_good() {
        assert!(!Counts::default().are_good());
        assert!(!Counts::SKIPPED.are_good());
        assert!(!counts(7, 1, 0).are_good());
        assert!(counts(7, 0, 1).are_good());
        assert_eq!(counts(7, 1, 2).to_string(), "7 passed, 1 failed, 2 skipped");
    }
}
