//! What is counted and reported, and what Prometheus is told of it.

use holdfast_api::documents::{
    CacheUse, Detached, Device, DeviceState, DeviceTier, ForeignCertificate, JournalScrubs,
    ListedMember, LocalCondition, LocalJoining, LocalLacking, LocalMember, LocalSlice, LocalStall,
    LocalVolume, MemberState, MendedBlocks, Rejected, ReplicaCondition, Room, ScrubFindings,
    StallCause, Vitals,
};

use super::stalls::{INITIATORS_MAX, OTHERS};
use super::*;

fn device(detached: Option<Detached>) -> Device {
    Device {
        number: 0,
        path: "/dev/sdb".to_owned(),
        tier: DeviceTier::Flash,
        state: DeviceState::InUse,
        journal: true,
        journal_room: false,
        is_absent: false,
        bytes: 4096,
        used_bytes: 1024,
        bytes_per_second: 0,
        seconds_left: None,
        drain_bytes: None,
        bad_blocks: 0,
        detached,
        latency_p99_us: None,
    }
}

#[test]
fn what_was_counted_is_told_in_base_units() {
    let metrics = Metrics::new("n1");
    let stall = LocalStall {
        began_ms: 1,
        length_ms: 700,
        volume: 7,
        initiator: None,
        cause: StallCause::NodeLost,
        node: Some(2),
        slice: Some(0),
        waiting_max: 1,
        served: true,
    };
    metrics.stalls().ended(&stall);
    metrics.stalls().ended(&LocalStall {
        initiator: Some("iqn.2026-11.example:host".to_owned()),
        ..stall
    });
    metrics.stalls().lost();
    metrics.links().follow(Arc::new(AtomicU64::new(12)));
    let report = LocalReport {
        open: true,
        room: Room {
            bytes: 4096,
            used_bytes: 1024,
        },
        stalled: vec![stall],
        scrubbed: ScrubFindings {
            bytes_read: 8192,
            bad_blocks: 2,
            unmended_blocks: 1,
            ..ScrubFindings::default()
        },
        table_copies_mended: 3,
        mended: MendedBlocks {
            read: 5,
            known: 6,
            differing: 0,
        },
        devices: vec![device(Some(Detached::Nothing)), device(None)],
        metadata_listed: [("n1", MemberState::Answers), ("n2", MemberState::Silent)]
            .map(|(name, state)| ListedMember {
                member: "cafe".to_owned(),
                name: name.to_owned(),
                endpoints: Vec::new(),
                peers: Vec::new(),
                votes: true,
                state,
            })
            .into(),
        journal_scrubs: JournalScrubs {
            rounds: 4,
            bytes_read: 512,
            bad_segments: 2,
            mended_segments: 1,
        },
        cache: CacheUse {
            hits: 9,
            misses: 8,
            ahead_used: 7,
            ahead_unused: 6,
        },
        ..LocalReport::default()
    };
    let text = metrics.text(&report);
    for line in [
        "# TYPE holdfast_stall_seconds histogram",
        "holdfast_stall_seconds_sum{cause=\"node-lost\"} 0.7",
        "holdfast_stall_seconds_count{cause=\"node-lost\"} 1",
        "holdfast_stall_seconds_bucket{le=\"0.5\",cause=\"node-lost\"} 0",
        "holdfast_stall_seconds_bucket{le=\"0.75\",cause=\"node-lost\"} 1",
        "holdfast_volume_stalls_total{volume=\"v7\"} 1",
        "holdfast_volume_stalled_seconds_total{volume=\"v7\"} 0.7",
        "holdfast_initiator_stalls_total{volume=\"v7\",initiator=\"iqn.2026-11.example:host\"} 1",
        "holdfast_initiator_stalled_seconds_total{volume=\"v7\",initiator=\"iqn.2026-11.example:host\"} 0.7",
        "holdfast_stalls_lost_total 1",
        "holdfast_links_cut_total 12",
        "holdfast_volumes_stalled 1",
        "holdfast_open 1",
        "holdfast_pool_bytes 4096",
        "holdfast_pool_used_bytes 1024",
        "holdfast_metadata_member_up{name=\"n1\",member=\"cafe\"} 1",
        "holdfast_metadata_member_up{name=\"n2\",member=\"cafe\"} 0",
        "holdfast_scrub_read_bytes_total 8192",
        "holdfast_scrub_bad_blocks_total 2",
        "holdfast_scrub_differing_blocks_total 0",
        "holdfast_scrub_unmended_blocks_total 1",
        "holdfast_mended_blocks_total{reason=\"read\"} 5",
        "holdfast_mended_blocks_total{reason=\"known\"} 6",
        "holdfast_mended_blocks_total{reason=\"differing\"} 0",
        "holdfast_devices_detached 1",
        "holdfast_table_copies_mended_total 3",
        "holdfast_journal_scrubs_total 4",
        "holdfast_journal_scrub_read_bytes_total 512",
        "holdfast_journal_bad_segments_total 2",
        "holdfast_journal_mended_segments_total 1",
        "holdfast_cache_hit_blocks_total 9",
        "holdfast_cache_missed_blocks_total 8",
        "holdfast_ahead_used_blocks_total 7",
        "holdfast_ahead_unused_blocks_total 6",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} in:\n{text}");
    }
    assert!(text.contains("holdfast_build_info{version="));
    assert!(text.ends_with("# EOF\n"));
}

/// Alerts are about rises: the first stall has to be one.
#[test]
fn what_has_never_stalled_is_zero_and_not_absent() {
    let text = Metrics::new("n1").text(&LocalReport::default());
    for cause in StallCause::ALL {
        let cause = cause.as_str();
        let line = format!("holdfast_stall_seconds_count{{cause=\"{cause}\"}} 0");
        assert!(text.lines().any(|it| it == line), "{line} in:\n{text}");
    }
}

#[test]
fn what_is_not_in_sync_is_counted_where_it_is_led() {
    let lacking = LocalLacking {
        node: 2,
        bytes: None,
    };
    let joining = |bytes_done| LocalJoining {
        bytes_done,
        bytes_total: 100,
        ..LocalJoining::default()
    };
    let report = LocalReport {
        slices: vec![
            LocalSlice {
                lacking: vec![lacking; 2],
                joining: vec![joining(30)],
                ..LocalSlice::default()
            },
            // One that has more than was thought to be needed lacks nothing.
            LocalSlice {
                joining: vec![joining(130)],
                ..LocalSlice::default()
            },
        ],
        ..LocalReport::default()
    };
    let text = Metrics::new("n1").text(&report);
    for line in ["holdfast_replicas_lacking 2", "holdfast_sync_left_bytes 70"] {
        assert!(text.lines().any(|it| it == line), "{line} in:\n{text}");
    }
}

#[test]
fn volumes_are_told_by_name_as_long_as_they_are_there() {
    let metrics = Metrics::new("n1");
    let named = |name: &str| LocalVolume {
        volume: 7,
        name: Some(name.to_owned()),
        ..LocalVolume::default()
    };
    let told = |volumes: Vec<LocalVolume>| {
        let report = LocalReport {
            volumes,
            ..LocalReport::default()
        };
        let text = metrics.text(&report);
        let lines = text.lines();
        let lines = lines.filter(|line| line.starts_with("holdfast_volume_info"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let name = |name: &str| {
        [format!(
            "holdfast_volume_info{{volume=\"v7\",name=\"{name}\"}} 1"
        )]
    };
    assert_eq!(told(vec![named("demo")]), name("demo"));
    // A name that came back from metadata of before.
    assert_eq!(told(vec![named("other")]), name("other"));
    assert!(told(vec![LocalVolume::default()]).is_empty());
}

/// What waits for a replica of its last epoch is told by what it does, and whether anybody serves it by the portal.
#[test]
fn what_waits_for_other_replicas_is_counted() {
    let metrics = Metrics::new("n1");
    let slice = |what: Option<ReplicaCondition>| LocalSlice {
        condition: what.map(|what| LocalCondition {
            what,
            nodes: vec![2],
        }),
        ..LocalSlice::default()
    };
    let volume = |serving| LocalVolume {
        serving,
        ..LocalVolume::default()
    };
    let told = |report: &LocalReport| {
        let text = metrics.text(report);
        let begins = ["holdfast_replicas_waiting{", "holdfast_volumes_unserved"];
        let lines = text.lines();
        let lines = lines.filter(|line| begins.iter().any(|it| line.starts_with(it)));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let waits = LocalReport {
        volumes: vec![volume(true), volume(false)],
        slices: vec![
            slice(Some(ReplicaCondition::Asks)),
            slice(Some(ReplicaCondition::Asks)),
            slice(Some(ReplicaCondition::OtherStore)),
            slice(None),
        ],
        ..LocalReport::default()
    };
    let expected = [
        "holdfast_replicas_waiting{condition=\"asks\"} 2",
        "holdfast_replicas_waiting{condition=\"other-store\"} 1",
        "holdfast_volumes_unserved 1",
    ];
    assert_eq!(told(&waits), expected);
    let well = ["holdfast_volumes_unserved 0"];
    assert_eq!(told(&LocalReport::default()), well);
}

#[test]
fn a_node_that_is_not_well_known_tells_so() {
    let metrics = Metrics::new("n1");
    let levels = |report: &LocalReport| {
        let text = metrics.text(report);
        ["registered", "metadata_followed", "metadata_believed"].map(|name| {
            let line = format!("holdfast_{name} 1");
            text.lines().any(|it| it == line)
        })
    };
    let well = LocalReport {
        incarnation: 3,
        ..LocalReport::default()
    };
    assert_eq!(levels(&well), [true; 3]);
    let starting = LocalReport {
        metadata: LocalMetadata::Unreached,
        ..LocalReport::default()
    };
    assert_eq!(levels(&starting), [false, false, true]);
    let astray = LocalReport {
        metadata: LocalMetadata::Behind,
        ..well.clone()
    };
    assert_eq!(levels(&astray), [true, false, false]);
    let removed = LocalReport {
        rejected: Some(Rejected::default()),
        ..well
    };
    assert_eq!(levels(&removed), [false, true, true]);
}

/// There is something to have an alarm on.
#[test]
fn a_node_that_has_not_heard_who_the_members_are_tells_of_its_file() {
    let metrics = Metrics::new("n1");
    let configured = |endpoint: &str, state| LocalMember {
        endpoint: endpoint.to_owned(),
        state,
        member: (state == MemberState::Answers).then(|| "cafe".to_owned()),
        tls: None,
    };
    let mut report = LocalReport {
        metadata_members: vec![
            configured("192.0.2.1:2379", MemberState::Leaderless),
            configured("192.0.2.2:2379", MemberState::Silent),
            configured("192.0.2.3:2379", MemberState::Answers),
        ],
        ..LocalReport::default()
    };
    let told = |report: &LocalReport| {
        let text = metrics.text(report);
        let lines = text.lines();
        let lines = lines.filter_map(|line| line.strip_prefix("holdfast_metadata_member_up"));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = [
        "{name=\"192.0.2.1:2379\",member=\"\"} 0",
        "{name=\"192.0.2.2:2379\",member=\"\"} 0",
        "{name=\"192.0.2.3:2379\",member=\"cafe\"} 1",
    ];
    assert_eq!(told(&report), expected);
    report.metadata_listed.push(ListedMember {
        member: "cafe".to_owned(),
        name: "n3".to_owned(),
        endpoints: Vec::new(),
        peers: Vec::new(),
        votes: true,
        state: MemberState::Silent,
    });
    assert_eq!(told(&report), ["{name=\"n3\",member=\"cafe\"} 0"]);
}

#[test]
fn initiators_that_make_up_names_are_counted_together() {
    let metrics = Metrics::new("n1");
    let stalled = |name: String| {
        metrics.stalls().ended(&LocalStall {
            began_ms: 1,
            length_ms: 500,
            volume: 7,
            initiator: Some(name),
            cause: StallCause::Media,
            node: None,
            slice: None,
            waiting_max: 1,
            served: false,
        });
    };
    (0..INITIATORS_MAX + 3).for_each(|number| stalled(format!("iqn.2026-11.example:{number}")));
    stalled("iqn.2026-11.example:0".to_owned());
    let text = metrics.text(&LocalReport::default());
    let lines = text.lines();
    let told = lines.filter(|line| line.starts_with("holdfast_initiator_stalls_total{"));
    let told: Vec<&str> = told.collect();
    assert_eq!(told.len(), INITIATORS_MAX + 1);
    let has = |name: &str, count: u64| {
        let end = format!("initiator=\"{name}\"}} {count}");
        told.iter().any(|line| line.ends_with(&end))
    };
    assert!(has("iqn.2026-11.example:0", 2));
    assert!(has(OTHERS, 3));
}

/// What is not known is not told: 0 would be a clock, and a certificate, of 1970.
#[test]
fn what_alarms_are_about_is_told_where_it_is_known() {
    let metrics = Metrics::new("n1");
    let told = |report: &LocalReport| {
        let text = metrics.text(report);
        let begins = [
            "holdfast_clock",
            "holdfast_certificate",
            "holdfast_etcd_certificate",
            "holdfast_provisioned",
            "holdfast_sync_brought",
            "holdfast_device_latency",
        ];
        let lines = text.lines();
        let lines = lines.filter(|line| begins.iter().any(|it| line.starts_with(it)));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let nothing = [
        "holdfast_provisioned_bytes 0",
        "holdfast_sync_brought_bytes_total 0",
    ];
    assert_eq!(told(&LocalReport::default()), nothing);
    let known = LocalReport {
        vitals: Some(Vitals {
            clock_ms: 1_795_963_000_250,
            longest_stall_ms: 0,
            certificate_expires_ms: Some(1_800_000_000_000),
            certificate_of: None,
            etcd_certificate: Some(ForeignCertificate {
                expires_ms: 1_800_000_000_500,
                lifetime_ms: 86_400_000,
            }),
        }),
        provisioned_bytes: 1 << 30,
        brought_bytes: 4096,
        devices: vec![Device {
            latency_p99_us: Some(750_000),
            ..device(None)
        }],
        ..LocalReport::default()
    };
    let expected = [
        "holdfast_certificate_not_after_timestamp_seconds 1800000000.0",
        "holdfast_clock_timestamp_seconds 1795963000.25",
        "holdfast_device_latency_p99_seconds{device=\"0\"} 0.75",
        "holdfast_etcd_certificate_lifetime_seconds 86400.0",
        "holdfast_etcd_certificate_not_after_timestamp_seconds 1800000000.5",
        "holdfast_provisioned_bytes 1073741824",
        "holdfast_sync_brought_bytes_total 4096",
    ];
    assert_eq!(told(&known), expected);
    let without_tls = LocalReport {
        vitals: Some(Vitals {
            certificate_expires_ms: None,
            etcd_certificate: None,
            ..known.vitals.unwrap()
        }),
        devices: vec![device(None)],
        ..known
    };
    assert_eq!(
        told(&without_tls),
        [expected[1], expected[5], expected[6]],
        "nor of a device that did nothing"
    );
}

/// Prometheus and somebody who looks by hand, or two Prometheus. What is told of devices is forgotten before it is told anew.
#[test]
fn whoever_asks_while_others_do_is_told_everything() {
    let metrics = Metrics::new("n1");
    let devices = (0..64).map(|number| Device {
        number,
        latency_p99_us: Some(100),
        ..device(None)
    });
    let waits = LocalSlice {
        condition: Some(LocalCondition {
            what: ReplicaCondition::Asks,
            nodes: vec![2],
        }),
        ..LocalSlice::default()
    };
    let report = LocalReport {
        devices: devices.collect(),
        slices: vec![waits; 64],
        ..LocalReport::default()
    };
    let alone = metrics.text(&report);
    let mut alone: Vec<&str> = alone.lines().collect();
    alone.sort_unstable();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let text = metrics.text(&report);
                    let mut told: Vec<&str> = text.lines().collect();
                    told.sort_unstable();
                    assert_eq!(told, alone);
                }
            });
        }
    });
}
