//! `holdfast volume sessions` and `holdfast volume reservations`.

use holdfast_api::ApiClient;
use holdfast_api::documents::{
    PathSession, PathState, RegisteredKey, Reservations, SessionList, SessionParameters,
};
use holdfast_control::VolumeName;

use super::stalls::utc;
use crate::failure::Failure;
use crate::output::{Output, table};

pub(super) async fn sessions(
    client: &ApiClient,
    output: &Output,
    name: &VolumeName,
) -> Result<(), Failure> {
    let list = client.volume_sessions(name.as_str()).await?;
    output.result(&list, || sessions_text(&list))?;
    for node in &list.silent {
        output.talk(&format!(
            "warning: node {node} does not answer: its sessions are not shown"
        ));
    }
    Ok(())
}

fn sessions_text(list: &SessionList) -> String {
    if list.sessions.is_empty() {
        return "no initiator has a session\n".to_owned();
    }
    let rows: Vec<_> = list.sessions.iter().map(row).collect();
    table(
        [
            "INITIATOR",
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

fn row(session: &PathSession) -> [String; 11] {
    let state = session.state.map_or("unknown", PathState::as_str);
    [
        session.initiator.clone(),
        session.portal.clone(),
        state.to_owned(),
        format!("{} of {}", session.slices_local, session.slices),
        session.commands.to_string(),
        if session.chap { "yes" } else { "no" }.to_owned(),
        digests(session.parameters).to_owned(),
        session.address.clone(),
        session.isid.clone(),
        session.tsih.to_string(),
        utc(session.since_ms),
    ]
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
