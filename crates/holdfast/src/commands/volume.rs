//! `holdfast volume`.

use std::ops::RangeInclusive;

use holdfast_api::ApiClient;
use holdfast_api::documents::{Joining, Slice, Volume, VolumeCreate, VolumeGrow, VolumeList};
use serde::Serialize;

use super::client;
use crate::cli::{Global, VolumeCommand};
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

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
        VolumeCommand::List => {
            let list = client.volumes().await?;
            output.result(&list, || list_text(&list))?;
        }
        VolumeCommand::Create(create) => {
            let request = VolumeCreate {
                name: create.name.to_string(),
                bytes: create.size.bytes(),
                policy: create.policy,
            };
            let volume = client.create_volume(&request).await?;
            output.result(&volume, || volume_text(&volume))?;
        }
        VolumeCommand::Show { name } => show(&client, output, name.as_str()).await?,
        VolumeCommand::Grow { name, size } => {
            let request = VolumeGrow {
                bytes: size.bytes(),
            };
            let volume = client.grow_volume(name.as_str(), request).await?;
            output.result(&volume, || volume_text(&volume))?;
        }
        VolumeCommand::Delete { name } => {
            client.delete_volume(name.as_str()).await?;
            let deleted = Deleted {
                deleted: name.as_str(),
            };
            output.result(&deleted, || format!("deleted {name}\n"))?;
        }
    }
    Ok(())
}

async fn show(client: &ApiClient, output: &Output, name: &str) -> Result<(), Failure> {
    let volume = client.volume(name).await?;
    output.result(&volume, || volume_text(&volume))?;
    Ok(())
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
                volume.target.clone(),
            ]
        })
        .collect();
    table(
        ["VOLUME", "SIZE", "USED", "POLICY", "HEALTH", "TARGET"],
        &rows,
    )
}

fn volume_text(volume: &Volume) -> String {
    let mut text = format!(
        "volume  {}\nsize    {}\nused    {}\npolicy  {}\nhealth  {}\nresync  {} moved\n\n",
        volume.name,
        bytes(volume.bytes),
        used(volume.used_bytes),
        volume.policy,
        volume.health.as_str(),
        bytes(volume.resync.bytes_moved),
    );
    let rows: Vec<_> = alike(&volume.slices)
        .map(|(indices, slice)| {
            let place = if indices.start() == indices.end() {
                indices.start().to_string()
            } else {
                format!("{}-{}", indices.start(), indices.end())
            };
            let joining: Vec<_> = slice.joining.iter().map(progress).collect();
            [
                place,
                slice.epoch.to_string(),
                slice.primary.clone(),
                slice.in_sync.join(" "),
                joining.join(" "),
            ]
        })
        .collect();
    text.push_str(&table(
        ["SLICE", "EPOCH", "PRIMARY", "IN SYNC", "JOINING"],
        &rows,
    ));
    text
}

fn progress(joining: &Joining) -> String {
    let Joining {
        node,
        bytes_done,
        bytes_total,
    } = joining;
    match bytes_done.saturating_mul(100).checked_div(*bytes_total) {
        Some(percent) => format!("{node} ({} %)", percent.min(100)),
        None => node.clone(),
    }
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
    use holdfast_api::documents::{Health, Resync};
    use holdfast_model::Policy;

    use super::*;

    fn slice(index: u32, primary: &str, joining: Vec<Joining>) -> Slice {
        Slice {
            index,
            epoch: 1,
            primary: primary.to_owned(),
            in_sync: vec!["n1".to_owned(), "n2".to_owned()],
            joining,
        }
    }

    #[test]
    fn slices_that_are_alike_share_a_line() {
        let joining = vec![Joining {
            node: "n3".to_owned(),
            bytes_done: 1,
            bytes_total: 3,
        }];
        let volume = Volume {
            name: "demo".to_owned(),
            bytes: 20 << 30,
            used_bytes: None,
            policy: Policy::Mirror2,
            health: Health::Healthy,
            slices: vec![
                slice(0, "n1", Vec::new()),
                slice(1, "n1", Vec::new()),
                slice(2, "n1", Vec::new()),
                slice(3, "n2", Vec::new()),
                slice(4, "n2", joining),
            ],
            resync: Resync { bytes_moved: 4096 },
        };
        let text = volume_text(&volume);
        let (head, slices) = text.split_once("\n\n").unwrap();
        assert!(head.contains("used    unknown") && head.contains("resync  4 KiB moved"));
        assert_eq!(
            slices,
            "SLICE  EPOCH  PRIMARY  IN SYNC  JOINING\n\
             0-2    1      n1       n1 n2\n\
             3      1      n2       n1 n2\n\
             4      1      n2       n1 n2    n3 (33 %)\n"
        );
    }
}
