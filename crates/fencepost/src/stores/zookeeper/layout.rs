//! [`ElectionLayout`]: whose candidates an election understands.

use super::keys::Form;

/// How the candidates of an election are laid out below its path. Curator and kazoo do not see each other's candidates, so an election has one
/// layout.
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ElectionLayout {
    /// That of Apache Curator's `LeaderLatch`: nodes `_c_UUID-latch-SEQUENCE`, whose data are the value.
    #[default]
    Curator,
    /// That of kazoo's `Election`: nodes `HEX__lock__SEQUENCE`, whose data are the value.
    Kazoo,
}

impl ElectionLayout {
    /// Returns the form of the nodes.
    pub(super) fn form(self) -> Form {
        match self {
            Self::Curator => Form::Latch,
            Self::Kazoo => Form::Kazoo,
        }
    }
}
