//! The code in the pages of this project, compiled as documentation tests. It is a crate of its own because the library's package does not
//! contain the pages.

/// The README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The README of the library's package.
#[cfg(doctest)]
#[doc = include_str!("../../fencepost/README.md")]
pub struct PackageReadme;
