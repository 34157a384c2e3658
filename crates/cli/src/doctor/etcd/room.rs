//! Alarms, and how much room is left.

use fencepost_trial::text::numbers::decimal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::PATIENCE;
use super::super::finding::{Finding, Harm};
use super::{Known, Server};

/// From here on somebody should look.
const NEARLY_FULL: f64 = 0.8;

pub(super) async fn judge(known: &Known) -> Vec<Finding> {
    let mut findings = alarms(known);
    let is_full = !findings.is_empty();
    let mut fullest: Option<(f64, Finding)> = None;
    for server in &known.servers {
        let quota = match server.status.db_size_quota() {
            0 if known.is_tls => None,
            0 => quota(&server.host).await,
            quota => Some(quota as f64),
        };
        let (share, finding) = room(server, quota, known.is_tls);
        if fullest.as_ref().is_none_or(|(most, _)| share > *most) {
            fullest = Some((share, finding));
        }
    }
    // The alarm says it already.
    findings.extend(fullest.map(|(_, finding)| finding).filter(|_| !is_full));
    findings
}

fn alarms(known: &Known) -> Vec<Finding> {
    let errors = known
        .servers
        .iter()
        .flat_map(|server| server.status.errors());
    let errors: Vec<&String> = errors.collect();
    let rings = |alarm: &str| errors.iter().any(|error| error.contains(alarm));
    let mut findings = Vec::new();
    if rings("NOSPACE") {
        findings.push(
            Finding::danger("alarm", Harm::NoLocks, "NOSPACE: the store is full, and stays closed until the alarm is taken back")
                .means("No lock can be taken; those held can be given back.")
                .advice("etcdctl compact, defrag, then alarm disarm; a larger --quota-backend-bytes if it fills again"),
        );
    }
    if rings("CORRUPT") {
        findings.push(
            Finding::danger(
                "alarm",
                Harm::Vanishes,
                "CORRUPT: the members do not have the same data",
            )
            .means("Two members can give one lock to two clients.")
            .advice(
                "stop using it; etcd's guide to data corruption says how to replace the member",
            ),
        );
    }
    findings
}

fn room(server: &Server, quota: Option<f64>, is_tls: bool) -> (f64, Finding) {
    let used = server.status.db_size() as f64;
    let mebibytes = |bytes: f64| decimal(bytes / 1_048_576.0);
    let Some(quota) = quota.filter(|quota| *quota > 0.0) else {
        let why = match is_tls {
            true => "this version tells it in its metrics only, which are not read over TLS",
            false => "neither its answer nor its metrics tell it",
        };
        let what = format!("{} MiB used of an unknown quota: {why}", mebibytes(used));
        return (0.0, Finding::unknown("room", what));
    };
    let said = format!("{} of {} MiB used", mebibytes(used), mebibytes(quota));
    let finding = match used / quota {
        ..NEARLY_FULL => Finding::fine("room", said),
        _ => Finding::caution("room", Harm::Hampered, said)
            .means("When it is full an alarm rings, and no lock can be taken until somebody takes it back.")
            .advice("etcdctl compact and defrag; --auto-compaction-retention; or a larger --quota-backend-bytes"),
    };
    let finding = finding
        .figure("used_bytes", used as i64)
        .figure("limit_bytes", quota as i64);
    (used / quota, finding)
}

/// What the server measures itself by; `None`: it does not tell.
async fn quota(host: &str) -> Option<f64> {
    let text = tokio::time::timeout(PATIENCE, metrics(host))
        .await
        .ok()?
        .ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("etcd_server_quota_backend_bytes "));
    line?.trim().parse().ok()
}

async fn metrics(host: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
