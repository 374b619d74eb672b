//! `holdfast volume sessions`, `holdfast initiator sessions` and `holdfast volume reservations`.

use holdfast_api::ApiClient;
use holdfast_api::documents::{
    PathSession, PathState, RegisteredKey, Reservations, SessionParameters, TargetSession,
};
use holdfast_control::{IscsiNodeName, VolumeName};

use super::stalls::utc;
use crate::failure::Failure;
use crate::output::{Output, table};

/// The sessions that are paths to a volume.
pub(super) async fn of_volume(
    client: &ApiClient,
    output: &Output,
    name: &VolumeName,
) -> Result<(), Failure> {
    let list = client.volume_sessions(name.as_str()).await?;
    output.result(&list, || match list.sessions.as_slice() {
        [] => NONE.to_owned(),
        sessions => paths(sessions, "INITIATOR", |it| &it.initiator),
    })?;
    warn_of(&list.silent, output);
    Ok(())
}

/// The sessions of an initiator, as paths to volumes.
pub(super) async fn of_initiator(
    client: &ApiClient,
    output: &Output,
    name: &IscsiNodeName,
) -> Result<(), Failure> {
    let list = client.initiator_sessions(name.as_str()).await?;
    output.result(&list, || match list.sessions.as_slice() {
        [] => format!("{name} has no session\n"),
        sessions => paths(sessions, "VOLUME", |it| &it.volume),
    })?;
    warn_of(&list.silent, output);
    Ok(())
}

/// The sessions of all initiators, each once.
pub(super) async fn of_all(client: &ApiClient, output: &Output) -> Result<(), Failure> {
    let list = client.sessions().await?;
    output.result(&list, || match list.sessions.as_slice() {
        [] => NONE.to_owned(),
        all => sessions(all),
    })?;
    warn_of(&list.silent, output);
    Ok(())
}

fn warn_of(silent: &[String], output: &Output) {
    for node in silent {
        output.talk(&format!(
            "warning: node {node} does not answer: its sessions are not shown"
        ));
    }
}

const NONE: &str = "no initiator has a session\n";

fn paths(sessions: &[PathSession], first: &str, name: fn(&PathSession) -> &String) -> String {
    let row = |it: &PathSession| {
        let state = it.state.map_or("unknown", PathState::as_str);
        [
            name(it).clone(),
            it.portal.clone(),
            state.to_owned(),
            format!("{} of {}", it.slices_local, it.slices),
            it.commands.to_string(),
            proven(it.chap).to_owned(),
            digests(it.parameters).to_owned(),
            it.address.clone(),
            it.isid.clone(),
            it.tsih.to_string(),
            utc(it.since_ms),
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    table(
        [
            first,
            "PORTAL",
            "STATE",
            "LOCAL SLICES",
            "COMMANDS",
            "CHAP",
            "DIGESTS",
            "FROM",
            "ISID",
            "TSIH",
            "SINCE (UTC)",
        ],
        &rows,
    )
}

fn sessions(sessions: &[TargetSession]) -> String {
    let row = |it: &TargetSession| {
        [
            it.initiator.clone(),
            it.target.clone(),
            it.portal.clone(),
            it.commands.to_string(),
            proven(it.chap).to_owned(),
            digests(it.parameters).to_owned(),
            it.address.clone(),
            it.isid.clone(),
            it.tsih.to_string(),
            utc(it.since_ms),
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    table(
        [
            "INITIATOR",
            "TARGET",
            "PORTAL",
            "COMMANDS",
            "CHAP",
            "DIGESTS",
            "FROM",
            "ISID",
            "TSIH",
            "SINCE (UTC)",
        ],
        &rows,
    )
}

const fn proven(chap: bool) -> &'static str {
    if chap { "yes" } else { "no" }
}

const fn digests(parameters: SessionParameters) -> &'static str {
    match (parameters.header_digest, parameters.data_digest) {
        (true, true) => "header, data",
        (true, false) => "header",
        (false, true) => "data",
        (false, false) => "none",
    }
}

pub(super) async fn reservations(
    client: &ApiClient,
    output: &Output,
    name: &VolumeName,
) -> Result<(), Failure> {
    let told = client.reservations(name.as_str()).await?;
    output.result(&told, || reservations_text(&told))
}

fn reservations_text(told: &Reservations) -> String {
    let mut text = match (&told.reservation, &told.reserved) {
        (Some(held), _) => format!("reservation  {} (type {})\n", held.kind.as_str(), held.code),
        (None, Some(nexus)) => format!(
            "reservation  RESERVE by {} at {}\n",
            nexus.initiator, nexus.portal
        ),
        (None, None) => "reservation  none\n".to_owned(),
    };
    let persists = if told.persists {
        "asked for"
    } else {
        "not asked for; it outlives the loss of power in any case"
    };
    text.push_str(&format!(
        "generation   {}\nAPTPL        {persists}\n\n",
        told.generation
    ));
    if told.registrations.is_empty() {
        return text + "no initiator is registered\n";
    }
    let rows: Vec<_> = told.registrations.iter().map(key_row).collect();
    text + &table(["INITIATOR", "ISID", "PORTAL", "KEY", "HOLDS"], &rows)
}

fn key_row(key: &RegisteredKey) -> [String; 5] {
    [
        key.nexus.initiator.clone(),
        key.nexus.isid.clone(),
        key.nexus.portal.clone(),
        key.key.clone(),
        if key.holder { "yes" } else { "-" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::{HeldReservation, ReservationNexus, ReservationType};

    use super::*;

    #[test]
    fn sessions_are_told_by_who_has_them_or_with_what() {
        let path = PathSession {
            volume: "data".to_owned(),
            initiator: "iqn.a".to_owned(),
            isid: "00023d000001".to_owned(),
            tsih: 3,
            address: "192.0.2.7:40000".to_owned(),
            portal: "n2".to_owned(),
            since_ms: 1_000,
            commands: 5,
            chap: true,
            parameters: SessionParameters::default(),
            slices_local: 1,
            slices: 2,
            state: None,
        };
        let session = TargetSession {
            target: "iqn.t".to_owned(),
            initiator: path.initiator.clone(),
            isid: path.isid.clone(),
            tsih: path.tsih,
            address: path.address.clone(),
            portal: path.portal.clone(),
            since_ms: path.since_ms,
            commands: path.commands,
            chap: path.chap,
            parameters: path.parameters,
        };
        let first = |text: &str| {
            let words = text.lines().map(|line| line.split_whitespace().next());
            words
                .map(|it| it.unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        let of_volume = paths(std::slice::from_ref(&path), "INITIATOR", |it| &it.initiator);
        assert_eq!(first(&of_volume), ["INITIATOR", "iqn.a"]);
        let of_initiator = paths(&[path], "VOLUME", |it| &it.volume);
        assert_eq!(first(&of_initiator), ["VOLUME", "data"]);
        let of_all = sessions(&[session]);
        assert_eq!(first(&of_all), ["INITIATOR", "iqn.a"]);
        for part in ["iqn.t", "n2", "192.0.2.7:40000", "1970-01-01"] {
            assert!(of_all.contains(part), "{part} in {of_all}");
        }
    }

    #[test]
    fn reservations_are_told_by_name_and_code_with_every_key() {
        let nexus = ReservationNexus {
            initiator: "iqn.a".to_owned(),
            isid: "00023d000001".to_owned(),
            portal: "n1".to_owned(),
        };
        let none = reservations_text(&Reservations::default());
        assert!(none.starts_with("reservation  none\n"), "{none}");
        assert!(none.ends_with("no initiator is registered\n"), "{none}");
        let held = reservations_text(&Reservations {
            generation: 7,
            reservation: Some(HeldReservation {
                kind: ReservationType::ExclusiveAccess,
                code: 3,
                holder: Some(nexus.clone()),
            }),
            registrations: vec![RegisteredKey {
                nexus,
                key: "0xabc".to_owned(),
                all_target_ports: false,
                holder: true,
            }],
            ..Reservations::default()
        });
        assert!(
            held.starts_with("reservation  Exclusive Access (type 3)\n"),
            "{held}"
        );
        assert!(
            held.contains("generation   7\n") && held.contains("0xabc"),
            "{held}"
        );
    }
}
