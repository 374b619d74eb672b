//! `holdfast volume`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use holdfast_api::documents::{
    AbsentReplica, AccessChange, Created, Joining, NodeState, Slice, SyncWork, Volume,
    VolumeAccess, VolumeCreate, VolumeDelete, VolumeGrow, VolumeList, VolumeSummary,
};
use holdfast_api::{ApiClient, ClientError};
use holdfast_control::{VolumeName, VolumeSize};
use holdfast_identity::Scope;
use holdfast_stdx::Count;
use serde::Serialize;

use super::{client, confirm, node, paths, protection, scrub, traffic};
use crate::cli::{Global, VolumeCommand};
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

/// After how long people are told that it goes on.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// The same where what is waited for may come to nothing, three seconds later.
const SESSIONS_SILENCE_MAX: Duration = Duration::from_secs(1);

/// How long may be asked for what people are told beside a result.
const EXTRAS_MAX: Duration = Duration::from_secs(3);

/// What `volume delete` says to programs.
#[derive(Serialize)]
struct Deleted<'a> {
    deleted: &'a str,
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    command: VolumeCommand,
) -> Result<(), Failure> {
    let client = client(global);
    match command {
        VolumeCommand::List { traffic: false } => {
            let list = client.volumes().await?;
            output.result(&list, || list_text(&list))?;
        }
        VolumeCommand::List { traffic: true } => traffic::list(&client, output).await?,
        VolumeCommand::Create(create) => {
            let request = VolumeCreate {
                name: create.name.to_string(),
                bytes: create.size.bytes(),
                policy: create.policy,
                target: create.target.map(|target| target.to_string()),
                lun: create.lun,
            };
            let creating = client.create_volume(&request);
            let tell = || output.talk(MAKING);
            let Created { volume, is_new } = patiently(SILENCE_MAX, tell, creating).await?;
            // What follows would look as if it had been made.
            if !is_new {
                output.talk("there was such a volume already: nothing was changed");
            }
            show_changed(&client, output, &volume).await?;
            if is_new {
                warn_of_promises(&client, output).await;
            }
        }
        VolumeCommand::Show { name } => {
            let volume = client.volume(name.as_str()).await?;
            show(&client, output, &volume).await?;
        }
        VolumeCommand::Sessions { name } => paths::of_volume(&client, output, &name).await?,
        VolumeCommand::Reservations { name } => paths::reservations(&client, output, &name).await?,
        VolumeCommand::Grow { name, size } => grow(&client, output, &name, size).await?,
        VolumeCommand::Allow { volume, initiator } => {
            let change = AccessChange::Allow(initiator.to_string());
            change_access(&client, output, &volume, &change).await?;
        }
        VolumeCommand::Disallow { volume, initiator } => {
            let change = AccessChange::Disallow(initiator.to_string());
            change_access(&client, output, &volume, &change).await?;
        }
        VolumeCommand::Open { volume } => {
            change_access(&client, output, &volume, &AccessChange::Open(true)).await?;
        }
        VolumeCommand::Scrub { name, wait } => scrub::run(&client, output, &name, wait).await?,
        VolumeCommand::Delete { name, yes, force } => {
            if !yes {
                confirm::deletion(&client, output, &name).await?;
            }
            delete(&client, output, &name, force).await?;
        }
    }
    Ok(())
}

async fn grow(
    client: &ApiClient,
    output: &Output,
    name: &VolumeName,
    size: VolumeSize,
) -> Result<(), Failure> {
    // The answer is the same whether it grew or not. What this cannot find out, the order itself tells.
    let asked = client.clone().within(EXTRAS_MAX);
    let before = asked.volume(name.as_str()).await.ok();
    let before = before.map(|volume| volume.bytes);
    let request = VolumeGrow {
        bytes: size.bytes(),
    };
    let growing = client.grow_volume(name.as_str(), request);
    let volume = patiently(SILENCE_MAX, || output.talk(MAKING), growing).await?;
    let has_grown = before != Some(volume.bytes);
    if !has_grown {
        output.talk("it has that size already: nothing was changed");
    }
    show_changed(client, output, &volume).await?;
    if has_grown {
        warn_of_promises(client, output).await;
    }
    Ok(())
}

async fn change_access(
    client: &ApiClient,
    output: &Output,
    name: &VolumeName,
    change: &AccessChange,
) -> Result<(), Failure> {
    let volume = client.change_access(name.as_str(), change).await?;
    show_changed(client, output, &volume).await
}

/// Whom a volume is for.
fn access_text(access: Option<&VolumeAccess>) -> String {
    let Some(VolumeAccess { open, initiators }) = access else {
        return String::new();
    };
    let whom = match initiators.as_slice() {
        _ if *open => "everybody".to_owned(),
        [] => "nobody".to_owned(),
        some => some.join("\n          "),
    };
    format!("access    {whom}\n")
}

async fn delete(
    client: &ApiClient,
    output: &Output,
    name: &VolumeName,
    force: bool,
) -> Result<(), Failure> {
    let name = name.as_str();
    let deleting = client.delete_volume(name, VolumeDelete { force });
    let (silence, words) = deletion_waits(force);
    patiently(silence, || output.talk(words), deleting).await?;
    output.result(&Deleted { deleted: name }, || format!("deleted {name}\n"))?;
    if force && !output.is_for_programs() {
        output.talk(
            "note: a host that has not been told looks for it still, and would take a new volume of that name for it",
        );
    }
    Ok(())
}

/// What is waited for where a volume is made, or grows.
const MAKING: &str = "waiting until the volume is made and served: large ones take a while";

/// After how long it is told of a deletion that it goes on, and what: one that nothing forces waits for sessions first.
const fn deletion_waits(force: bool) -> (Duration, &'static str) {
    match force {
        true => (
            SILENCE_MAX,
            "waiting until the volume is deleted: large ones take a while",
        ),
        false => (
            SESSIONS_SILENCE_MAX,
            "waiting a few seconds until every node says that no host has a session with it, and until it is deleted",
        ),
    }
}

/// Waits for something to be done, and tells so if it takes longer than `silence`: a large volume has thousands of slices.
async fn patiently<T>(
    silence: Duration,
    tell: impl FnOnce(),
    doing: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, Failure> {
    tokio::pin!(doing);
    tokio::select! {
        done = &mut doing => return Ok(done?),
        () = tokio::time::sleep(silence) => tell(),
    }
    Ok(doing.await?)
}

/// Who is asked for what is told besides; nobody where the token is for volumes only: that would be put down as a refusal.
async fn for_extras(client: &ApiClient) -> Option<ApiClient> {
    let client = client.clone().within(EXTRAS_MAX);
    let scope = client.who().await.map(|it| it.scope);
    let is_for_less = scope.is_ok_and(|it| it != Scope::Everything);
    (!is_for_less).then_some(client)
}

/// Says so to people if the volumes together may fill more than there is. What is done is done, whatever
/// comes of it.
async fn warn_of_promises(client: &ApiClient, output: &Output) {
    if output.is_for_programs() {
        return;
    }
    let Some(client) = for_extras(client).await else {
        return;
    };
    let Ok(status) = client.status().await else {
        return;
    };
    // Who is down has room, too; nobody knows how much.
    let all_up = status.nodes.up == status.nodes.total;
    if all_up && status.promised_bytes > status.pool.bytes {
        output.talk(&format!(
            "note: all volumes with their copies may fill {}, and the nodes have {}: `holdfast \
             status` tells when that becomes too little",
            bytes(status.promised_bytes),
            bytes(status.pool.bytes),
        ));
    }
}

/// Prints a volume that was changed; for people without its slices, of which there may be thousands.
async fn show_changed(client: &ApiClient, output: &Output, volume: &Volume) -> Result<(), Failure> {
    if output.is_for_programs() {
        return output.result(volume, String::new);
    }
    let summary = summary(client, volume).await;
    output.result(volume, || volume_head(volume, summary.as_ref()))
}

/// Prints a volume; for people with what they need beside it.
async fn show(client: &ApiClient, output: &Output, volume: &Volume) -> Result<(), Failure> {
    if output.is_for_programs() {
        return output.result(volume, String::new);
    }
    let summary = summary(client, volume).await;
    let nodes = match for_extras(client).await {
        Some(client) => client.nodes().await.map_or(Vec::new(), |list| list.nodes),
        None => Vec::new(),
    };
    let away = nodes.iter().filter(|node| node.state != NodeState::Up);
    let away = away.map(|node| (node.name.as_str(), node::state(node)));
    let away: BTreeMap<&str, String> = away.collect();
    output.result(volume, || {
        volume_head(volume, summary.as_ref()) + "\n" + &slices_text(volume, &away)
    })
}

/// What the list says of a volume. The volume itself is told in any case.
async fn summary(client: &ApiClient, volume: &Volume) -> Option<VolumeSummary> {
    let list = client.clone().within(EXTRAS_MAX).volumes().await.ok()?;
    let mut volumes = list.volumes.into_iter();
    volumes.find(|summary| summary.name == volume.name)
}

fn used(used_bytes: Option<u64>) -> String {
    used_bytes.map_or_else(|| "unknown".to_owned(), bytes)
}

fn list_text(list: &VolumeList) -> String {
    let rows: Vec<_> = list
        .volumes
        .iter()
        .map(|volume| {
            [
                volume.name.clone(),
                bytes(volume.bytes),
                used(volume.used_bytes),
                volume.policy.to_string(),
                volume.health.as_str().to_owned(),
                volume.sessions.to_string(),
                volume.target.clone(),
            ]
        })
        .collect();
    table(
        [
            "VOLUME", "SIZE", "USED", "POLICY", "HEALTH", "SESSIONS", "TARGET",
        ],
        &rows,
    )
}

/// What was sent to bring copies up to date: what a primary has sent and not yet put on record dies with it.
fn sent(moved: u64) -> String {
    match moved {
        0 => "nothing on record".to_owned(),
        moved => format!("at least {} sent since the volume was made", bytes(moved)),
    }
}

fn volume_head(volume: &Volume, summary: Option<&VolumeSummary>) -> String {
    let mut text = format!("volume    {}\n", volume.name);
    // It may have been deleted meanwhile, or nobody told.
    if let Some(summary) = summary {
        text.push_str(&format!(
            "number    v{}, in logs and for `holdfast inspect`\ntarget    {}, LUN {}\nsessions  {}\n",
            summary.volume, summary.target, summary.lun, summary.sessions,
        ));
    }
    text.push_str(&format!(
        "size      {}\nused      {}\npolicy    {}\nhealth    {}\nresync    {}{}\n",
        bytes(volume.bytes),
        used(volume.used_bytes),
        volume.policy,
        volume.health.as_str(),
        sent(volume.resync.bytes_moved),
        left(&volume.resync.work),
    ));
    text.push_str(&access_text(volume.access.as_ref()));
    text + &scrub::text(&volume.scrub, volume.slices.len())
}

/// What is left to be copied, if anything is.
fn left(work: &SyncWork) -> String {
    if work.replicas == 0 {
        return String::new();
    }
    let replicas = Count::of(work.replicas, "replica");
    let time = work.seconds_left.map(protection::about);
    let time = time.map(|time| format!(", {time}")).unwrap_or_default();
    format!(
        "; {replicas} {} {}{time}",
        replicas.choose("lacks", "lack"),
        protection::amount(work)
    )
}

/// `away` says of each node that cannot be relied on how it is.
fn slices_text(volume: &Volume, away: &BTreeMap<&str, String>) -> String {
    let named = |node: &String| match away.get(node.as_str()) {
        Some(state) => format!("{node} ({state})"),
        None => node.clone(),
    };
    let rows: Vec<_> = alike(&volume.slices)
        .map(|(indices, slice)| {
            let place = if indices.start() == indices.end() {
                indices.start().to_string()
            } else {
                format!("{}-{}", indices.start(), indices.end())
            };
            let joining: Vec<_> = slice.joining.iter().map(progress).collect();
            let absent: Vec<_> = slice.absent.iter().map(lacking).collect();
            [
                place,
                slice.epoch.to_string(),
                if slice.served {
                    named(&slice.primary)
                } else {
                    "none".to_owned()
                },
                slice
                    .in_sync
                    .iter()
                    .map(named)
                    .collect::<Vec<_>>()
                    .join(" "),
                joining.join(" "),
                absent.join(" "),
            ]
        })
        .collect();
    table(
        ["SLICE", "EPOCH", "PRIMARY", "IN SYNC", "JOINING", "ABSENT"],
        &rows,
    )
}

fn lacking(absent: &AbsentReplica) -> String {
    match absent.bytes_lacking {
        Some(lacking) => format!("{} (lacks {})", absent.node, bytes(lacking)),
        None => absent.node.clone(),
    }
}

fn progress(joining: &Joining) -> String {
    let Joining {
        node,
        bytes_done,
        bytes_total,
        bytes_per_second,
        seconds_left,
    } = joining;
    let Some(percent) = bytes_done.saturating_mul(100).checked_div(*bytes_total) else {
        return node.clone();
    };
    let mut text = format!("{node} ({} %", percent.min(100));
    if *bytes_per_second > 0 {
        text.push_str(&format!(", {}/s", bytes(*bytes_per_second)));
    }
    if let Some(seconds) = seconds_left {
        text.push_str(&format!(", {}", protection::about(*seconds)));
    }
    text + ")"
}

/// Runs of slices that differ in nothing but their index: a large volume has thousands.
fn alike(slices: &[Slice]) -> impl Iterator<Item = (RangeInclusive<u32>, &Slice)> {
    slices
        .chunk_by(|left, right| {
            right.index == left.index + 1
                && Slice {
                    index: left.index,
                    ..right.clone()
                } == *left
        })
        .map(|run| (run[0].index..=run[run.len() - 1].index, &run[0]))
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::{Health, Resync, Scrub};
    use holdfast_model::Policy;

    use super::*;

    fn slice(index: u32, primary: &str, joining: Vec<Joining>) -> Slice {
        Slice {
            index,
            epoch: 1,
            primary: primary.to_owned(),
            served: index < 4,
            in_sync: vec!["n1".to_owned(), "n2".to_owned()],
            joining,
            absent: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_that_waits_for_sessions_says_so_before_it_is_refused() {
        let told = async |force, milliseconds| {
            let (silence, words) = deletion_waits(force);
            let mut told = None;
            let deleting = async {
                tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                Ok(())
            };
            patiently(silence, || told = Some(words), deleting)
                .await
                .unwrap();
            told
        };
        assert_eq!(told(false, 900).await, None);
        let words = told(false, 1100).await.unwrap();
        assert!(words.contains("no host has a session"), "{words}");
        assert_eq!(told(true, 1100).await, None);
        assert!(!told(true, 2100).await.unwrap().contains("session"));
    }

    #[test]
    fn whom_a_volume_is_for() {
        let text = |open, initiators: &[&str]| {
            let initiators = initiators.iter().map(|it| (*it).to_owned()).collect();
            access_text(Some(&VolumeAccess { open, initiators }))
        };
        assert_eq!(access_text(None), "");
        assert_eq!(text(true, &[]), "access    everybody\n");
        assert_eq!(text(false, &[]), "access    nobody\n");
        assert_eq!(
            text(false, &["iqn.a", "iqn.b"]),
            "access    iqn.a\n          iqn.b\n"
        );
    }

    #[test]
    fn slices_that_are_alike_share_a_line() {
        let joining = vec![Joining {
            node: "n3".to_owned(),
            bytes_done: 1,
            bytes_total: 3,
            bytes_per_second: 2 << 20,
            seconds_left: Some(150),
        }];
        let absent = vec![AbsentReplica {
            node: "n4".to_owned(),
            bytes_lacking: Some(5 << 20),
        }];
        let volume = Volume {
            name: "demo".to_owned(),
            etag: None,
            bytes: 20 << 30,
            used_bytes: None,
            policy: Policy::Mirror2,
            health: Health::Healthy,
            slices: vec![
                slice(0, "n1", Vec::new()),
                slice(1, "n1", Vec::new()),
                slice(2, "n1", Vec::new()),
                slice(3, "n2", Vec::new()),
                Slice {
                    absent,
                    ..slice(4, "n2", joining)
                },
            ],
            resync: Resync {
                bytes_moved: 4096,
                work: SyncWork {
                    replicas: 2,
                    bytes: 6 << 20,
                    bytes_per_second: 2 << 20,
                    seconds_left: None,
                },
            },
            scrub: Scrub::default(),
            access: None,
        };
        let head = volume_head(&volume, None);
        let slices = slices_text(&volume, &BTreeMap::from([("n2", "down".to_owned())]));
        assert!(
            head.contains("used      unknown")
                && head.contains("resync    at least 4 KiB sent since the volume was made; 2 replicas lack 6 MiB at 2 MiB/s\n")
        );
        assert_eq!(
            slices,
            "SLICE  EPOCH  PRIMARY    IN SYNC       JOINING                          ABSENT\n\
             0-2    1      n1         n1 n2 (down)\n\
             3      1      n2 (down)  n1 n2 (down)\n\
             4      1      none       n1 n2 (down)  n3 (33 %, 2 MiB/s, about 3 min)  n4 (lacks 5 MiB)\n"
        );
    }
}
