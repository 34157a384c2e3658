// The phrases for events. A copy of the phrases of the lab's story (crates/trial/src/story/words.rs); a test compares the two.

export const WORDS = {
  "bought": {
    "sold": "{who} buys a unit",
    "no_stock": "{who} gets its turn and finds nothing left",
    "busy": "{who} finds the lock taken",
    "unknown": "{who} cannot tell whether it bought"
  },
  "declined": "{who} declines to go on: it knows, or cannot rule out, that its lock is lost",
  "fault": {
    "killed": "The lab kills {who} (SIGKILL) and sees it die",
    "stopped": "The lab stops {who} (SIGSTOP)",
    "cut_off": "The lab cuts {who} off from its store: nothing passes, and nothing is closed",
    "replies_cut": "The lab lets no reply of the store reach {who}; its requests still arrive",
    "requests_cut": "The lab lets no request of {who} reach its store; what the store sends still arrives",
    "passed_one_way": "Something passes between {who} and its store, in the direction that is open",
    "slowed": "The lab delays every reply of the store to {who}",
    "distant": "The lab delays every message between {who} and its store",
    "connections_dead": "The lab lets {who}'s connections to its store die silently; new ones work",
    "vanished": "The lab lets {who}'s machine vanish: nothing passes, and no connection of {who}'s is closed",
    "clock_ahead": "The lab sets the time of day of {who} an hour forward",
    "clock_behind": "The lab sets the time of day of {who} an hour back",
    "clock_fast": "The lab lets the time of day of {who} run a thousand times as fast",
    "clock_right": "The time of day of {who} is right again",
    "clock_read": "{who} asks for the time",
    "suspended": "The lab shows {who} a machine that was suspended: CLOCK_MONOTONIC did not advance",
    "reply_lost": "A reply of the store to {who} is lost, and its connection cut",
    "reply_arrives": "The first of the late replies to {who} arrives",
    "reply_held": "The lab holds a reply of the store to {who} back",
    "answered_oom": "The lab answers {who} with -OOM, and the store does not get the request",
    "answered_read_only": "The lab answers {who} with -READONLY, and the store does not get the request",
    "answered_loading": "The lab answers {who} with -LOADING, and the store does not get the request",
    "answered_upstream": "The store carries {who}'s request out, and the lab answers -upstream failure",
    "write_held": "{who} sends its write, and the lab holds it back on its way",
    "over_released": "{who} is asked to release once more what it has released",
    "same_pid": "{who} is started, with the process id of the one that was killed"
  },
  "gave_up": "The lab stops waiting",
  "reached": "{who} has done step {step} of {of}",
  "register": {
    "read": "{who} reads {value}",
    "write": "{who} writes {value}"
  },
  "server": {
    "cut_off": "the {server} is cut off: it gets no more writes",
    "reconnected": "the {server} can be reached again",
    "killed": "the {server} is killed (SIGKILL)",
    "promoted": "the {server} takes over at the same address",
    "lives_on": "the {server} lives on, and takes itself for the primary",
    "restarted_empty": "the {server} runs again, empty",
    "clock_ahead": "the {server} is an hour ahead: its clock has jumped forward",
    "clock_behind": "the {server} is an hour behind: its clock has jumped back",
    "evicted": "the {server} is short of memory: it has evicted every key it had",
    "taken_away": "the {server} has no locks any more: the lab has taken them away",
    "elected": "the {server} is elected by the majority",
    "stopped": "the {server} is stopped (SIGSTOP): it answers nobody",
    "silent": "the {server} has not answered the lab's request",
    "continued": "the {server} goes on (SIGCONT)",
    "restarted": "the {server} runs again, with its data"
  },
  "slept": "The machine was suspended for {for_ms} ms",
  "stalled": "The lab stalled for {for_ms} ms",
  "stock_read": "The lab reads the stock: {units}",
  "store_read": "The lab looks at the store"
};

// Fills in the blanks of a phrase, and capitalizes it unless it begins with the name of a process.
export const fillIn = (phrase, blanks) => {
  const text = phrase.replace(/\{(\w+)\}/g, (blank, name) => blanks[name] ?? blank);
  return phrase.startsWith('{') ? text : text[0].toUpperCase() + text.slice(1);
};
