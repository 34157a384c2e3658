//! Describes a run of the Redis line model in words.

use crate::client::Manner;
use crate::moves::Move;
use crate::plain_commands::{Attempt, Step};
use crate::state::{Answer, Command, Message, Owner, Phase, Request, State, Token};

/// Returns one line: what happened, and the state afterwards.
pub(crate) fn line(before: &State, step: Move, after: &State) -> String {
    format!(
        "    {:<62} | {}\n",
        sentence(before, step, after),
        situation(after)
    )
}

fn sentence(before: &State, step: Move, after: &State) -> String {
    match step {
        Move::Tick => "time passes".into(),
        Move::Start(client, manner) => {
            format!("{} wants the lock{}", name(client), by(manner))
        }
        Move::StartNext(client, manner) => {
            format!(
                "{} wants the lock again at once{}",
                name(client),
                by(manner)
            )
        }
        Move::Execute(client) => {
            let command = &before.clients[client].commands[0];
            let is_plain = matches!(command.request, Request::PlainCommands(_));
            if is_plain
                && after.clients[client].commands.len() == before.clients[client].commands.len()
            {
                return format!("server runs {}", sent(client, command));
            }
            let answer = after.clients[client].replies.last();
            let answer = answer.map_or("nobody reads the answer".into(), |it| heard(&it.answer));
            format!("server runs {}: {answer}", sent(client, command))
        }
        Move::ReadReply(client) => {
            let reply = &before.clients[client].replies[0];
            format!("{} reads {}", name(client), message(client, reply))
        }
        Move::ReadPush(client, push) => {
            let push = &before.clients[client].pushes[push];
            format!("{} reads the push {}", name(client), message(client, push))
        }
        Move::Beat(client) => format!("{} sends a heartbeat", name(client)),
        Move::AskAgain(client) => format!("{} asks again", name(client)),
        Move::Renew(client) => format!("{} sends a renewal", name(client)),
        Move::Release(client) => format!("{} sends its release", name(client)),
        Move::GiveUp(client) => {
            format!("{} sees its deadline pass and sends RELEASE", name(client))
        }
        Move::Cancel(client) => format!("{} cancels and sends RELEASE", name(client)),
        Move::Disconnect(client) => format!(
            "{} loses its connection; the server has not noticed",
            name(client)
        ),
        Move::NoticeCut(client) => format!("{} notices that the server is gone", name(client)),
        Move::Reconnect(client) => format!("{} connects again", name(client)),
        Move::ExecutePrevious(client) => {
            let previous = before.clients[client]
                .previous
                .as_deref()
                .unwrap_or_default();
            format!(
                "server runs {} from the old connection",
                sent(client, &previous[0])
            )
        }
        Move::ClosePrevious(client) => {
            format!("server closes the old connection of {}", name(client))
        }
        Move::Freeze(client) => format!("{} freezes", name(client)),
        Move::Thaw(client) => format!("{} thaws", name(client)),
        Move::Kill(client) => format!("{} is killed", name(client)),
        Move::DropPush(client, _) => format!("a push to {} gets lost", name(client)),
        Move::DuplicatePush(client, _) => format!("a push to {} is doubled", name(client)),
        Move::PlainTakes => "a plain client takes the key".into(),
        Move::PlainReleases => "the plain client deletes the key".into(),
        Move::Replicate => "the replica has everything up to here".into(),
        Move::FailOver => "the replica takes over".into(),
        Move::RestartEmpty => "the server restarts empty".into(),
        Move::Flush => "somebody removes every key".into(),
        Move::LineExpires => "the line expires".into(),
    }
}

fn by(manner: Manner) -> &'static str {
    match manner {
        Manner::Script => "",
        Manner::PlainCommands => ", by plain commands",
    }
}

fn name(client: usize) -> char {
    char::from(b'A' + client as u8)
}

fn token(token: Token) -> String {
    format!("{}{}", name(usize::from(token.client)), token.wait)
}

fn sent(client: usize, command: &Command) -> String {
    let what = match command.request {
        Request::Acquire => "ACQUIRE",
        Request::Try => "TRY",
        Request::PlainCommands(Attempt { step, guess, .. }) => match step {
            Step::Set => {
                return format!("SET NX of {}{}, guess {guess}", name(client), command.wait);
            }
            Step::Count => "ZADD XX INCR",
            Step::Look => "EXISTS",
        },
        Request::BeatWaiting => "BEAT (wait)",
        Request::BeatHolding => "BEAT (hold)",
        Request::Release => "RELEASE",
    };
    format!("{what} of {}{}", name(client), command.wait)
}

fn message(client: usize, message: &Message) -> String {
    format!(
        "'{}' for {}{}",
        heard(&message.answer),
        name(client),
        message.wait
    )
}

fn heard(answer: &Answer) -> String {
    match answer {
        Answer::Granted { fence, lease } => format!("granted, fence {fence}, lease {lease}"),
        Answer::Queued { ticket } => format!("queued with ticket {ticket}"),
        Answer::Declined { lift: true } => "declined, wrong guess".into(),
        Answer::Declined { lift: false } => "declined".into(),
        Answer::Gone => "gone".into(),
        Answer::Busy => "busy".into(),
        Answer::Kept => "kept".into(),
        Answer::Lost => "lost".into(),
        Answer::Released { was_held: true } => "released".into(),
        Answer::Released { was_held: false } => "not the owner".into(),
    }
}

fn situation(state: &State) -> String {
    let key = match state.server.key {
        None => "key free".into(),
        Some(key) => {
            let owner = match key.owner {
                Owner::Ours(owner) => token(owner),
                Owner::Plain => "plain".into(),
            };
            let mark = if key.is_marked { "+" } else { "" };
            let guess = if key.is_guessed { "~" } else { "" };
            format!("key {owner}{mark}{guess} for {}", key.remaining)
        }
    };
    let line: Vec<_> = state.server.line.iter().map(|it| token(it.token)).collect();
    let mut told = format!(
        "{key}; line [{}]; fence {}",
        line.join(" "),
        state.server.fence
    );
    for (index, client) in state.clients.iter().enumerate() {
        if client.phase == Phase::Hold {
            told += &format!("; {} believes {}", name(index), client.belief);
        }
    }
    told
}
