//! The `main` function of a store's test program, which runs a list of tests or plays the part of a child.

use fencepost_rig::is_soak;
use libtest_mimic::{Arguments, Trial};

use crate::actor::{Opener, Part};

/// How often repeated tests run in a soak.
const SOAK_RUNS: usize = 20;

/// A test function, which panics if the test fails, with its name. [`tests!`] creates a list of them.
#[derive(Debug, Clone, Copy)]
pub struct NamedTest {
    /// The name, if it is not that of the function.
    #[doc(hidden)]
    pub given_name: Option<&'static str>,
    /// The path of the function.
    #[doc(hidden)]
    pub path: &'static str,
    #[doc(hidden)]
    pub test: fn(),
}

impl NamedTest {
    fn name(&self) -> &'static str {
        let of_function = self.path.rsplit("::").next().unwrap_or(self.path).trim();
        self.given_name.unwrap_or(of_function)
    }
}

/// Lists tests: `module::function`, which has the name of the function, or `"name" = module::function`.
#[macro_export]
macro_rules! tests {
    ($($($name:literal =)? $test:path),* $(,)?) => {
        &[$(
            $crate::test_program::NamedTest {
                given_name: $crate::tests!(@given $($name)?),
                path: stringify!($test),
                test: $test,
            }
        ),*]
    };
    (@given) => { None };
    (@given $name:literal) => { Some($name) };
}
pub use tests;

/// A group of related tests. Each is called `theme::test`.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    name: &'static str,
    tests: &'static [NamedTest],
    runs: usize,
}

impl Theme {
    /// Creates a theme whose tests run once. Some of them run longer in a soak.
    pub const fn once(name: &'static str, tests: &'static [NamedTest]) -> Self {
        Self {
            name,
            tests,
            runs: 1,
        }
    }

    /// Creates a theme whose tests run this many times, and more often in a soak, because their result depends on timing.
    pub fn repeated(name: &'static str, usual_runs: usize, tests: &'static [NamedTest]) -> Self {
        let runs = if is_soak() { SOAK_RUNS } else { usual_runs };
        Self { name, tests, runs }
    }

    fn as_libtest(self) -> impl Iterator<Item = Trial> {
        let Self { name, tests, runs } = self;
        tests.iter().map(move |named| {
            let test = named.test;
            let name = if name.is_empty() {
                named.name().to_owned()
            } else {
                format!("{name}::{}", named.name())
            };
            Trial::test(name, move || {
                (0..runs).for_each(|_| test());
                Ok(())
            })
        })
    }
}

/// The `main` function of a store's tests. In a child it plays the part that the test assigned; otherwise it runs the selected
/// tests.
pub fn main<O: Opener>(themes: impl IntoIterator<Item = Theme>) {
    match Part::<O>::of_this_process() {
        Some(part) => part.play(),
        None => run(themes),
    }
}

/// Runs the tests that the command line selects, and exits the process.
pub fn run(themes: impl IntoIterator<Item = Theme>) -> ! {
    let tests = themes.into_iter().flat_map(Theme::as_libtest).collect();
    libtest_mimic::run(&arguments(), tests).exit()
}

/// Returns the command line. By default, two tests per processor run at once, because they mostly wait for leases to end. In a
/// soak they run one at a time, so that they do not disturb each other's measurements.
pub fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    if is_soak() {
        arguments.test_threads = Some(1);
    } else if arguments.test_threads.is_none() {
        arguments.test_threads = std::thread::available_parallelism()
            .ok()
            .map(|processors| 2 * processors.get());
    }
    arguments
}
