//! What is wrong with the wrong locks.

/// The flaw of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Every process gets the lock.
    NoLock,
    /// A release deletes whatever is there.
    BlindDelete,
    /// Grants never expire.
    NoExpiry,
    /// A grant that has expired is not replaced by the next, so every later process gets the lock.
    TwiceAfterExpiry,
    /// A release does nothing, and grants never expire.
    ForgetsToRelease,
    /// Every grant has the same fence.
    FenceConstant,
    /// Every fence is lower than the one before.
    FenceRegressing,
    /// Fences are words, which have no order.
    FenceOfWords,
    /// There is no fence.
    NoFence,
    /// A process that is started again creates the table of fences anew.
    FenceRestarts,
    /// A release deletes every lock of its process whose name begins like that of the lock.
    ReleasesPrefix,
    /// Names are cut off, and a process gets a lock again that it has.
    CutsNames,
    /// Only the latest of several locks is renewed.
    RenewsLast,
    /// Leases end by the time of day of whoever asks.
    WallClock,
    /// Leases are renewed when the time of day says so.
    RenewsByWallClock,
    /// Once a lock is released, the others of its process are not renewed any more.
    StopsRenewing,
    /// Names that differ in case only are one name.
    IgnoresCase,
    /// Only the first 64 letters of a name count.
    CutsLongNames,
    /// There is one lock, whatever its name.
    OneName,
    /// Fences have two digits.
    FenceWraps,
    /// The next fence comes after the last one in the order of text.
    FenceByText,
    /// Whoever dies while it waits keeps its place in line.
    LineKeepsDead,
    /// The last in line is served first.
    LineIsReversed,
    /// Whoever gives up keeps its place in line for as long as a lease.
    LineKeepsGivenUp,
    /// A lease begins when its process asks.
    LeaseFromRequest,
    /// A process counts its lease from its request, although the record has a whole one.
    CountsFromRequest,
    /// A time-out is taken for a grant.
    TimeOutIsGrant,
    /// Nobody gets the lock any more when it was granted often.
    WearsOut,
    /// On Redis: a lease is counted from the reply, however late that is.
    FromReply,
    /// On Redis: a release looks whose lock it is, and then deletes what is there.
    GetThenDelete,
    /// On Redis: whoever learns of its grant too late deletes what is there.
    BlindRegret,
    /// On Redis: an error counts as a grant.
    ErrorIsGrant,
    /// On Redis: after an error, the lock is written once more, whoever has it.
    WritesAfterError,
    /// On Redis: after an error, a lock that is there counts as a grant.
    LooksAfterError,
    /// On Redis: an error counts as a release.
    ErrorIsRelease,
    /// On Redis: a release that got no answer is repeated. That is right, and its answer may be that there was nothing to release.
    RepeatsRelease,
    /// On Redis: a release is announced over a connection of its own, and nobody waits for the answer to that. That is no flaw.
    AnnouncesRelease,
    /// On Redis: a release that got no answer is repeated, and then deletes whatever is there.
    RepeatsBlindly,
    /// On Redis: a release deletes whatever is there, and is repeated if it got no answer.
    RepeatsDelete,
    /// On Redis: a release looks whose lock it is, and counts as done if it does not learn that.
    LostLookIsRelease,
    /// On Redis: leases are not renewed any more when the server has answered a renewal with an error.
    ErrorEndsRenewal,
    /// On Redis: an error counts as a renewal.
    ErrorIsRenewal,
    /// On Redis: the lock is taken in one step, and gets its expiry in the next.
    ExpiresInSecondStep,
    /// On Redis: whoever gets no answer to a renewal releases the lock, and works on until its lease is over.
    ReleasesUnanswered,
    /// On Redis: a renewal counts when it is sent.
    SentIsRenewal,
    /// On Redis: whatever the server sends counts as a renewal, also what others have said.
    AnyWordIsRenewal,
    /// On Redis: leases are not renewed any more when a renewal has failed.
    RenewalGivesUp,
    /// On Redis: it waits for its replica, and does not look how many have answered.
    IgnoresReplicas,
    /// On Redis: it waits for its replica on another connection, which has written nothing.
    WaitsElsewhere,
    /// On Redlock: the answer of one server is enough.
    OneIsEnough,
    /// The owner of a lock is a thread, by a number that threads of other processes have too; whoever owns a lock gets it again.
    OwnerIsThread,
    /// The owner of a lock is a machine.
    OwnerIsHost,
    /// The owner of a lock is a process, by its process id; whoever owns a lock gets it again, on the lease that runs.
    OwnerIsPid,
    /// The same, with a new lease. That is odd, and harmless: the process that had the id is dead.
    ResumesByPid,
    /// The same, with the same fence.
    FenceStaysWithPid,
    /// A lock lasts as long as a process with the process id of its owner.
    LooksAlive,
    /// The same, but the process must have started when its owner did. That is no flaw.
    KnowsItsOwner,
    /// On Redis: the length of a lease is taken for seconds.
    TtlInSeconds,
    /// The length of a lease is taken for microseconds.
    TtlInMicroseconds,
    /// A lease has whole seconds, and one of none lasts forever.
    TtlOfWholeSeconds,
    /// Leases are renewed twice, and then never again.
    RenewalDies,
    /// On Redis: leases are renewed one after the other.
    RenewsOneByOne,
    /// On Redis: leases are renewed fifty at a time, one batch after the other.
    RenewsByFifties,
    /// On Redis: the connection for renewals is trusted for longer than a lease.
    TrustsConnection,
    /// On Redis: the connection for renewals is never replaced.
    NeverReconnects,
    /// A renewed lease is shorter than a new one.
    RenewalShortens,
    /// A renewal adds to what is left of the lease.
    RenewalAddsUp,
    /// A last renewal before the release takes the lock if somebody else has it.
    RenewalRecreates,
    /// A renewed lease has no end.
    RenewalDropsExpiry,
    /// A waiter asks properly once; after that it takes the lock.
    SetsOnRetry,
    /// A release that finds nothing of its own deletes whatever is there.
    ForcesRelease,
    /// A release frees what its process has, whichever grant it was asked to release.
    ReleasesOwnLater,
    /// A release after the end of the lease deletes whatever is there.
    ClearsExpired,
    /// On Redis: whoever asks for a lock sets its expiry, also if somebody else has it.
    WaitersProlong,
    /// The counter of the fences is deleted with the lock.
    FenceEndsWithLock,
    /// The fence is the time of day in seconds.
    FenceOfSeconds,
    /// Every process counts its own grants.
    FenceOfProcess,
    /// The fence is read before the wait.
    FenceReadBefore,
    /// The fence is drawn before the wait. So it is nobody else's, and falls when a waiter is overtaken.
    FenceDrawnBefore,
    /// A slash in a name is replaced by an underscore.
    SlashIsUnderscore,
    /// Only what a name has in braces counts.
    TagIsName,
    /// The last letter of a name does not count.
    CutsLastLetter,
    /// A release frees all locks of its process.
    ReleasesAll,
    /// Whoever is refused releases the lock nevertheless.
    ReleasesAfterRefusal,
    /// The request of a waiter that has given up goes on.
    TakesAfterGivingUp,
    /// It looks whether the lock is free, and then takes it.
    LooksThenTakes,
    /// It looks whether the lease is over, and then removes whatever is there and takes the lock.
    BreaksStale,
    /// On Redis: a renewal prolongs the lock of whoever has it, and does not look at the answer.
    RenewsAnyKey,
    /// On Redis: it tells a loss, but long after it has learned of it.
    TellsLate,
    /// On Redis: it tells a loss, and goes on.
    TakesLossBack,
    /// On Redis: the fence is a counter, beside the lock.
    FenceOfCounter,
    /// A lock that is re-entrant is free at the first release, however often it was taken.
    FreesAtFirstRelease,
    /// A lock that claims to be re-entrant refuses its holder.
    RefusesItsHolder,
    /// On Redlock: whoever has no majority deletes what is there.
    BlindCleanup,
    /// On Postgres: the lock is shared.
    SharedLock,
    /// On Postgres: the lock belongs to a transaction, which is over at once.
    LockOfTransaction,
    /// On Postgres: a release frees everything that its session has.
    UnlocksAll,
    /// On Postgres: the number of a lock consists of the first eight letters of its name.
    NumberOfEightLetters,
    /// On Postgres: a release gives the connection back to its pool, and the session keeps the lock.
    KeptByPool,
    /// On Postgres: the transaction that the lock belongs to is rolled back while its holder works.
    RolledBack,
    /// On Postgres: a lock of the session is taken in a transaction, whose end is believed to release it.
    TrustsRollback,
    /// On Postgres: the lock belongs to a transaction, which lasts as long as the hold. That is no flaw.
    HeldByTransaction,
    /// On Postgres: the server looks for dead connections, but seldom.
    LooksSeldom,
    /// On Postgres: every statement has another connection of a pool.
    Pooled,
    /// On etcd: the key has no lease.
    NoLease,
    /// On etcd: the key is written without a condition.
    NoCondition,
    /// On etcd: the key is deleted without a condition.
    DeletesAnyKey,
    /// On ZooKeeper: the last node has the lock.
    LastNode,
    /// On ZooKeeper: a node stays when its session is over.
    LastingNode,
    /// On ZooKeeper: the node of a waiter that has given up stays.
    KeepsNode,
    /// On ZooKeeper: a release deletes the first node.
    DeletesFirstNode,
}
