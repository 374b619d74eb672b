//! Configurations that are right, and what is said of those that are not.

use std::time::{Duration, Instant, SystemTime};

use holdfast_api::documents::LogLevel;

use super::*;
use crate::etcd::MemberTls;

const TEXT: &str = r#"
cluster = "0123456789abcdef0123456789abcdef"
node = 1
name = "n1"
directory = "/srv/holdfast/n1"

[portal]
listen = "0.0.0.0:3260"
advertise = "n1.example:3260"

[peers]
listen = "127.0.0.1:7561"

[api]
listen = "127.0.0.1:7461"

[metadata]
addresses = ["127.0.0.1:7460"]

[[devices]]
path = "/srv/holdfast/n1/device"
file_bytes = 17179869184

[[devices]]
path = "/dev/disk/by-id/some"
tier = "capacity"
"#;

fn config() -> NodeConfig {
    toml::from_str(TEXT).unwrap()
}

fn error_of(text: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.toml");
    fs::write(&path, text).unwrap();
    NodeConfig::read(&path).unwrap_err().to_string()
}

#[test]
fn the_documented_file_is_read_and_written_back() {
    let config = config();
    assert_eq!(config.check(), Ok(()));
    assert_eq!(config.portal.advertised(), "n1.example:3260");
    assert_eq!(config.peers.advertised(), "127.0.0.1:7561");
    assert_eq!(config.devices[0].tier, Tier::Flash);
    assert_eq!(config.devices[1].tier, Tier::Capacity);
    assert_eq!(config.log, LogConfig::default());
    let json = LogConfig {
        level: LogLevel::Debug,
        format: LogFormat::Json,
        ..LogConfig::default()
    };
    let text = NodeConfig {
        log: json,
        ..config.clone()
    }
    .to_toml();
    assert!(
        text.contains("level = \"debug\"\nformat = \"json\""),
        "{text}"
    );
    assert_eq!(toml::from_str::<NodeConfig>(&text).unwrap().log, json);
    let bad = text.replace("\"debug\"", "\"loud\"");
    let error = toml::from_str::<NodeConfig>(&bad).unwrap_err().to_string();
    assert!(
        error.contains("`loud`") && error.contains("`debug`"),
        "{error}"
    );
    assert_eq!(config.history.bytes_max, budgets::HISTORY_BYTES_MAX);
    assert_eq!(config.disk_driver, DiskDriver::Auto);
    for (name, driver) in [
        ("auto", DriverChoice::RingOrThreads),
        ("ring", DriverChoice::Ring),
        ("threads", DriverChoice::Threads),
    ] {
        let text = format!("disk_driver = \"{name}\"\n{TEXT}");
        let config: NodeConfig = toml::from_str(&text).unwrap();
        assert_eq!(config.disk_driver.choice(), driver);
    }
    let again: NodeConfig = toml::from_str(&config.to_toml()).unwrap();
    assert_eq!(again, config);
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_its_place() {
    let misspelt = TEXT.replace("file_bytes", "file_byte");
    let error = error_of(&misspelt);
    assert!(
        error.contains("node.toml") && error.contains("line 22"),
        "{error}"
    );
    assert!(error.contains("file_byte"), "{error}");
    let missing = TEXT.replace("node = 1\n", "");
    assert!(error_of(&missing).contains("missing field `node`"));
    let no_address = TEXT.replace("127.0.0.1:7561", "here");
    assert!(error_of(&no_address).contains("listen = \"here\""));
    assert!(error_of("\u{0}").contains("node.toml"));
    let zero = TEXT.replace("node = 1\n", "node = 0\n");
    assert!(error_of(&zero).contains("node: 0 is not a number from 1 to 64"));
}

/// Read as the number of its digits, it would be an id that other clusters have as well.
#[test]
fn a_cluster_has_an_id_of_32_digits() {
    for id in ["abc", "xyz", ""] {
        let other = TEXT.replace("0123456789abcdef0123456789abcdef", id);
        let error = error_of(&other);
        for part in [
            "line 2",
            "is not 32 hexadecimal digits",
            "openssl rand -hex 16",
        ] {
            assert!(error.contains(part), "{error}");
        }
        let witness =
            format!("cluster = \"{id}\"\nname = \"w\"\ndirectory = \"/d\"\n[etcd.members]\n");
        let error = toml::from_str::<witness::WitnessConfig>(&witness).unwrap_err();
        assert!(
            error.to_string().contains("32 hexadecimal digits"),
            "{error}"
        );
    }
}

#[test]
fn a_node_is_a_failure_domain_of_its_own_unless_it_says_another() {
    assert_eq!(config().failure_domain, None);
    let text = format!("failure_domain = \"rack-7\"\n{TEXT}");
    let config: NodeConfig = toml::from_str(&text).unwrap();
    assert_eq!(config.check(), Ok(()));
    assert_eq!(config.failure_domain.as_deref(), Some("rack-7"));
    let again: NodeConfig = toml::from_str(&config.to_toml()).unwrap();
    assert_eq!(again, config);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none.toml");
    let error = NodeConfig::read(&path).unwrap_err().to_string();
    assert!(
        error.starts_with("read ") && error.contains("none.toml"),
        "{error}"
    );
}

#[test]
fn senseless_values_are_refused() {
    let refused = |change: &dyn Fn(&mut NodeConfig)| {
        let mut config = config();
        change(&mut config);
        config.check().unwrap_err()
    };
    assert_eq!(refused(&|c| c.node.0 = 65), Invalid::Node(NodeId(65)));
    for name in ["", "a b", &"x".repeat(64)] {
        assert_eq!(
            refused(&|c| c.name = name.into()),
            Invalid::Name(name.into())
        );
        assert_eq!(
            refused(&|c| c.failure_domain = Some(name.into())),
            Invalid::FailureDomain(name.into())
        );
    }
    assert!(matches!(
        refused(&|c| c.directory = "n1".into()),
        Invalid::Relative {
            key: "directory",
            ..
        }
    ));
    assert!(matches!(
        refused(&|c| c.devices[1].path = "disk".into()),
        Invalid::Relative {
            key: "devices.path",
            ..
        }
    ));
    assert_eq!(
        refused(&|c| c.metadata.addresses.clear()),
        Invalid::NoMetadata
    );
    assert_eq!(refused(&|c| c.devices.clear()), Invalid::DeviceCount(0));
    assert!(matches!(
        refused(&|c| c.devices[1] = c.devices[0].clone()),
        Invalid::DeviceTwice(_)
    ));
    assert_eq!(
        refused(&|c| c.api.listen = c.peers.listen),
        Invalid::SameAddress("peers", "api")
    );
    for address in [
        "no port here",
        "host",
        ":1",
        "host:0",
        "host:65536",
        "[::1",
        "[x]:1",
        "a b:1",
    ] {
        assert_eq!(
            refused(&|c| c.portal.advertise = Some(address.into())),
            Invalid::Advertise("portal", address.into())
        );
        assert_eq!(
            refused(&|c| c.metadata.addresses.push(address.into())),
            Invalid::MetadataAddress(address.into())
        );
    }
    assert_eq!(
        refused(&|c| c.portal.advertise = None),
        Invalid::NotAdvertised("portal")
    );
    assert_eq!(refused(&|c| c.log.bytes_max = 10), Invalid::LogBytes(10));
    assert_eq!(
        refused(&|c| c.history.bytes_max = 10),
        Invalid::HistoryBytes(10)
    );
}

/// The samples are what a user begins with.
#[test]
fn the_samples_are_configurations() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
    let node = NodeConfig::read(&dist.join("node.toml")).unwrap();
    let etcd = node.etcd.as_ref().expect("it lists the members");
    assert!(etcd.own(&node.name).is_some(), "it is a member itself");
    match node.metadata_source() {
        Ok(MetadataSource::Etcd(endpoints)) => {
            let endpoints: Vec<_> = endpoints.iter().map(EtcdEndpoint::address).collect();
            let expected = ["192.0.2.1:2379", "192.0.2.2:2379", "192.0.2.3:2379"];
            assert_eq!(endpoints, expected);
        }
        other => panic!("the metadata is in etcd, not in {other:?}"),
    }
    let witness = witness::WitnessConfig::read(&dist.join("witness.toml")).unwrap();
    assert_eq!(witness.etcd.members, etcd.members);
    assert_eq!(witness.cluster, node.cluster);
    let external = NodeConfig::read(&dist.join("node-external-etcd.toml")).unwrap();
    match external.metadata_source() {
        Ok(MetadataSource::Etcd(endpoints)) => assert!(endpoints.iter().all(EtcdEndpoint::has_tls)),
        other => panic!("the metadata is in etcd, not in {other:?}"),
    }
    assert!(external.metadata.certificate.is_some() && !external.metadata.plain);
    let services = [
        (
            "holdfast-node.service",
            "holdfast node --config /etc/holdfast/node.toml\n",
        ),
        (
            "holdfast-witness.service",
            "holdfast witness --config /etc/holdfast/witness.toml",
        ),
    ];
    for (service, command) in services {
        let text = fs::read_to_string(dist.join(service)).unwrap();
        assert!(text.contains(command), "{service}");
    }
}

#[test]
fn the_metadata_is_in_one_place() {
    let with = |metadata: &str| {
        let text = TEXT.replace("[metadata]\naddresses = [\"127.0.0.1:7460\"]\n", metadata);
        assert_ne!(text, TEXT);
        toml::from_str::<NodeConfig>(&text).unwrap()
    };
    let source = |metadata: &str| with(metadata).metadata_source();
    let endpoints = |metadata: &str| match source(metadata) {
        Ok(MetadataSource::Etcd(found)) => found
            .iter()
            .map(|endpoint| endpoint.address().to_owned())
            .collect::<Vec<_>>(),
        other => panic!("{metadata}: it is in etcd, not in {other:?}"),
    };
    let etcd = "[metadata]\netcd = [\"a:1\", \"http://b:2\"]\nplain = true\n";
    assert_eq!(endpoints(etcd), ["a:1", "b:2"]);
    // Its own member first.
    let members = "[etcd]\nmember = \"y\"\nclient_port = 9\n[etcd.members]\nx = \"10.0.0.1\"\ny = \"10.0.0.2\"\n";
    assert_eq!(endpoints(members), ["10.0.0.2:9", "10.0.0.1:9"]);
    assert_eq!(
        with(members).to_toml().parse::<toml::Table>().map(|_| ()),
        Ok(())
    );
    assert!(matches!(
        config().metadata_source(),
        Ok(MetadataSource::Servers { .. })
    ));
    let secure = "[metadata]\netcd = [\"https://a:1\", \"https://b:2\"]\nca = \"/ca.pem\"\n";
    assert_eq!(endpoints(secure), ["a:1", "b:2"]);
    assert_eq!(with(secure).check(), Ok(()));
    for (metadata, says) in [
        ("", "metadata.addresses"),
        (
            "[metadata]\naddresses = [\"a:1\"]\netcd = [\"b:2\"]\n",
            "metadata.addresses and metadata.etcd",
        ),
        (
            "[metadata]\netcd = [\"b:2\"]\ntoken = \"t\"\n",
            "metadata.token",
        ),
        (
            "[metadata]\netcd = [\"https://b:2\"]\n",
            "metadata.ca: is needed",
        ),
        (
            "[metadata]\netcd = [\"https://b:2\", \"http://c:2\"]\nca = \"/ca.pem\"\n",
            "say https:// for all, or for none",
        ),
        (
            "[metadata]\netcd = [\"b:2\"]\nca = \"/ca.pem\"\n",
            "metadata.ca: is for https:// endpoints",
        ),
        (
            "[metadata]\naddresses = [\"b:2\"]\nkey = \"/key.pem\"\n",
            "metadata.key: is for https:// endpoints",
        ),
        (
            "[metadata]\netcd = [\"https://b:2\"]\nca = \"/ca.pem\"\nkey = \"/key.pem\"\n",
            "metadata.certificate: is needed together with metadata.key",
        ),
        (
            "[metadata]\netcd = [\"https://b:2\"]\nca = \"/ca.pem\"\ncertificate = \"/c.pem\"\n",
            "metadata.key: is needed together with metadata.certificate",
        ),
        (
            "[metadata]\netcd = [\"https://b:2\"]\nca = \"ca.pem\"\n",
            "metadata.ca: ca.pem is not an absolute path",
        ),
        (
            "[metadata]\netcd = [\"b\"]\n",
            "metadata.etcd: `b` is not HOST:PORT",
        ),
        ("[etcd.members]\n", "etcd.members: there are 0"),
        (
            "[etcd.members]\nx = \"0.0.0.0\"\n",
            "not the address of one machine",
        ),
        (
            "[etcd.members]\nx = \"10.0.0.1\"\ny = \"10.0.0.1\"\n",
            "10.0.0.1 is there twice",
        ),
        (
            "[etcd]\npeer_port = 2379\n[etcd.members]\nx = \"10.0.0.1\"\n",
            "2379 and 2379 are not two ports",
        ),
        (
            "[etcd]\nprogram = \"etcd\"\n[etcd.members]\nx = \"10.0.0.1\"\n",
            "absolute",
        ),
        ("[etcd.members]\n\"a b\" = \"10.0.0.1\"\n", "\"a b\""),
        (
            "[etcd]\nmember = \"y\"\n[etcd.members]\nx = \"10.0.0.1\"\n",
            "y is not one of them",
        ),
    ] {
        let error = with(metadata).check().unwrap_err().to_string();
        assert!(error.contains(says), "{metadata}: {error}");
    }
}

/// The demo, and an etcd or a proxy of it beside the node, have no need to say anything.
#[test]
fn nothing_is_said_in_the_clear_to_another_machine_unless_the_file_permits_it() {
    let with = |metadata: &str, security: &str| {
        let text = TEXT.replace("addresses = [\"127.0.0.1:7460\"]\n", metadata);
        assert_ne!(text, TEXT);
        toml::from_str::<NodeConfig>(&(text + security)).unwrap()
    };
    let off = "[security]\noff = true\n";
    for (metadata, key) in [
        ("etcd = [\"h:2379\"]\n", "metadata.etcd: h:2379"),
        (
            "etcd = [\"127.0.0.1:1\", \"http://192.0.2.7:2379\"]\n",
            "metadata.etcd: http://192.0.2.7:2379",
        ),
        (
            "etcd = [\"http://[2001:db8::7]:2379/\"]\n",
            "metadata.etcd: http://[2001:db8::7]:2379/",
        ),
        (
            "etcd = [\"localhost.example:2379\"]\n",
            "metadata.etcd: localhost.example:2379",
        ),
        (
            "addresses = [\"127.0.0.1:1\", \"192.0.2.7:7459\"]\ntoken = \"t\"\n",
            "metadata.addresses: 192.0.2.7:7459",
        ),
    ] {
        let refused = with(metadata, "");
        let error = refused.check_plain().unwrap_err().to_string();
        assert!(error.starts_with(key), "{error}");
        assert!(error.contains("metadata.plain = true"), "{error}");
        assert!(error.contains("docs/security.md"), "{error}");
        assert_eq!(refused.etcd_config().unwrap_err().to_string(), error);
        // Who does not speak to it is not kept from reading the file.
        assert_eq!(refused.check(), Ok(()), "{metadata}");
        let without = with(metadata, off);
        assert_eq!(without.check_plain(), Ok(()), "{metadata}");
        assert!(!without.has_plain_metadata(), "security.off says it");
        let permitted = with(&format!("{metadata}plain = true\n"), "");
        assert_eq!(permitted.check_plain(), Ok(()), "{metadata}");
        assert!(permitted.has_plain_metadata(), "{metadata}");
        let again: NodeConfig = toml::from_str(&permitted.to_toml()).unwrap();
        assert_eq!(again, permitted);
    }
    let here = "etcd = [\"127.0.0.1:1\", \"http://[::1]:2\", \"localhost:3\", \"127.0.0.2:4\"]\n";
    for metadata in [here, "addresses = [\"127.0.0.1:1\", \"[::1]:1\"]\n"] {
        let local = with(metadata, "");
        assert_eq!(local.check_plain(), Ok(()), "{metadata}");
        assert!(!local.has_plain_metadata(), "{metadata}");
    }
    let secure = "etcd = [\"https://h:2379\"]\nca = \"/ca.pem\"\n";
    assert!(!with(secure, "").has_plain_metadata());
    for nothing in [secure, "[etcd.members]\nn1 = \"192.0.2.1\"\n"] {
        for security in ["", off] {
            let unused = with(&format!("plain = true\n{nothing}"), security);
            let error = unused.check_plain().unwrap_err().to_string();
            assert!(error.starts_with("metadata.plain: is for what"), "{error}");
            assert_eq!(unused.check(), Ok(()));
        }
    }
}

/// One more machine has the list of the others, and no member. A misspelt name must not look like that: the others
/// would wait for its member for ever.
#[test]
fn a_machine_that_the_list_does_not_name_has_no_member() {
    let with = |members: &str| {
        let metadata = "[metadata]\naddresses = [\"127.0.0.1:7460\"]\n";
        let text = TEXT.replace(metadata, &format!("[etcd.members]\n{members}"));
        toml::from_str::<NodeConfig>(&text).unwrap()
    };
    let others = with("n2 = \"10.0.0.2\"\nn3 = \"10.0.0.3\"\n");
    assert_eq!(others.check(), Ok(()));
    assert_eq!(others.etcd.unwrap().own("n1"), None);
    let named = with("n1 = \"127.0.0.1\"\n");
    assert_eq!(named.check(), Ok(()));
    assert!(named.etcd.unwrap().own("n1").is_some());
    let mut misspelt = with("n2 = \"10.0.0.2\"\nn01 = \"127.0.0.1\"\n");
    let error = misspelt.check().unwrap_err().to_string();
    for part in [
        "n01 has an address of this machine (peers.listen)",
        "called n1",
        "etcd.member = \"n01\"",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let section = misspelt.etcd.as_mut().unwrap();
    section.member = Some("n01".to_owned());
    assert_eq!(misspelt.check(), Ok(()), "that is said");
    // Where it listens at all of its addresses, it is known by those that others are told.
    let mut anywhere = with("n01 = \"10.0.0.1\"\n");
    anywhere.peers.listen = "0.0.0.0:7561".parse().unwrap();
    anywhere.peers.advertise = Some("n1.example:7561".to_owned());
    assert_eq!(anywhere.check(), Ok(()), "what is a name's, nobody knows");
    anywhere.peers.advertise = Some("10.0.0.1:7561".to_owned());
    let error = anywhere.check().unwrap_err().to_string();
    let says = "n01 has an address of this machine (peers.advertise)";
    assert!(error.contains(says), "{error}");
}

/// It would do nothing, and whoever wrote it rely on it.
#[test]
fn space_is_taken_of_a_file_that_is_made_only() {
    let path = Path::new("/srv/data").to_owned();
    let mut config: NodeConfig = toml::from_str(TEXT).unwrap();
    config.devices = vec![DeviceConfig {
        path: path.clone(),
        file_bytes: None,
        preallocate: true,
        tier: Tier::Flash,
    }];
    let invalid = config.check().unwrap_err();
    assert_eq!(invalid, Invalid::Preallocate(path));
    let text = invalid.to_string();
    assert!(text.contains("/srv/data has preallocate"), "{text}");
    config.devices[0].file_bytes = Some(1 << 30);
    assert_eq!(config.check(), Ok(()));
}

/// The keys that a section may have, as whoever misspells one is told.
fn keys<T: DeserializeOwned>(section: &str) -> Vec<String> {
    let (head, prefix) = match section {
        "" => (String::new(), String::new()),
        "devices" => ("[[devices]]".to_owned(), "devices.".to_owned()),
        section => (format!("[{section}]"), format!("{section}.")),
    };
    let Err(error) = toml::from_str::<T>(&format!("{head}\nmisspelt = 1\n")) else {
        panic!("no key is called so");
    };
    let error = error.message().to_owned();
    let (_, expected) = error
        .split_once("expected")
        .expect("it says which there are");
    let keys = expected.split('`').skip(1).step_by(2);
    keys.map(|key| format!("{prefix}{key}")).collect()
}

#[test]
fn the_document_has_all_keys_and_no_others() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let names = rows.flat_map(|row| {
        let column = row.split('|').nth(1).unwrap_or_default();
        column.split('`').skip(1).step_by(2)
    });
    let mut told: Vec<String> = names.map(str::to_owned).collect();
    let sections = [
        "portal", "peers", "api", "metadata", "etcd", "devices", "cache", "history", "log",
        "security", "oidc",
    ];
    let mut known = keys::<NodeConfig>("");
    known.retain(|key| !sections.contains(&key.as_str()));
    known.extend(
        sections
            .iter()
            .flat_map(|section| keys::<NodeConfig>(section)),
    );
    told.sort();
    known.sort();
    assert_eq!(told, known);
    // A witness's are some of them.
    for key in keys::<witness::WitnessConfig>("") {
        let named = format!("`{key}`");
        assert!(
            text.contains(&named) || text.contains(&format!("`[{key}]`")),
            "{key}"
        );
    }
}

#[test]
fn there_is_tls_unless_the_file_says_otherwise() {
    let config = config();
    assert_eq!(config.api_scheme(), "https");
    assert_eq!(config.credentials(), config.directory.join("tls"));
    let subject = config.subject();
    assert_eq!((subject.node, &subject.name), (config.node, &config.name));
    assert!(
        subject.hosts.contains(&"n1.example".to_owned()),
        "{subject:?}"
    );
    assert!(
        !subject.hosts.contains(&"0.0.0.0".to_owned()),
        "{subject:?}"
    );
    let with = |section: &str| format!("{TEXT}\n[security]\n{section}\n");
    let off: NodeConfig = toml::from_str(&with("off = true")).unwrap();
    assert_eq!((off.api_scheme(), off.check()), ("http", Ok(())));
    assert_eq!(toml::from_str::<NodeConfig>(&off.to_toml()).unwrap(), off);
    let named: NodeConfig = toml::from_str(&with("directory = \"/etc/holdfast/tls\"")).unwrap();
    assert_eq!(named.credentials(), Path::new("/etc/holdfast/tls"));
    let relative = error_of(&with("directory = \"tls\""));
    assert!(
        relative.contains("security.directory: tls is not an absolute path"),
        "{relative}"
    );
    assert!(error_of(&with("of = true")).contains("unknown field `of`"));
}

const OIDC: &str = r#"
[oidc]
issuer = "https://id.example/realms/staff"
client_id = "holdfast"

[oidc.roles]
administrator = ["storage-admins"]
viewer = ["staff", "guests"]
"#;

#[test]
fn a_provider_of_identities_is_read_with_what_is_not_said() {
    let config: NodeConfig = toml::from_str(&format!("{TEXT}{OIDC}")).unwrap();
    assert_eq!(config.check(), Ok(()));
    assert_eq!(
        toml::from_str::<NodeConfig>(&config.to_toml()).unwrap(),
        config
    );
    let settings = config.oidc_settings().unwrap().unwrap();
    assert_eq!(settings.external_url, "https://127.0.0.1:7461");
    assert_eq!(settings.scopes, ["openid", "profile", "email"]);
    assert_eq!(settings.username_claim, "preferred_username");
    assert_eq!(
        (&*settings.roles_claim, settings.roles.len()),
        ("groups", 2)
    );
    assert_eq!(settings.client_secret, None);
    let without = toml::from_str::<NodeConfig>(TEXT).unwrap();
    assert_eq!(without.oidc_settings(), Ok(None));
}

#[test]
fn a_provider_that_lets_nobody_in_is_refused() {
    let with = |from: &str, to: &str| error_of(&format!("{TEXT}{}", OIDC.replace(from, to)));
    let off = error_of(&format!("{TEXT}{OIDC}\n[security]\noff = true\n"));
    assert!(off.contains("oidc: without TLS nobody logs in"), "{off}");
    for (from, to, said) in [
        (
            "https://id",
            "http://id",
            "oidc.issuer: `http://id.example/realms/staff` is not https://",
        ),
        ("issuer =", "isuer =", "unknown field `isuer`"),
        ("client_id = \"holdfast\"", "", "missing field `client_id`"),
        ("viewer", "reader", "unknown variant `reader`"),
        (
            "\"storage-admins\"",
            "\"\"",
            "oidc.roles: is not 1 to 1024 letters",
        ),
        (
            "client_id",
            "ca = \"ca.pem\"\nclient_id",
            "oidc.ca: ca.pem is not an absolute path",
        ),
        (
            "client_id",
            "scopes = [\"email\"]\nclient_id",
            "oidc.scopes: `openid` is missing",
        ),
        (
            "client_id",
            "external_url = \"https://a/b\"\nclient_id",
            "oidc.external_url: `https://a/b` is not",
        ),
    ] {
        let error = with(from, to);
        assert!(error.contains(said), "{error}");
    }
    let nobody = OIDC.split("administrator").next().unwrap();
    let nobody = error_of(&format!("{TEXT}{nobody}"));
    assert!(nobody.contains("nobody could log in"), "{nobody}");
}

#[test]
fn the_secret_at_a_provider_is_its_owners_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let mut config: NodeConfig = toml::from_str(&format!("{TEXT}{OIDC}")).unwrap();
    let oidc = config.oidc.as_mut().unwrap();
    oidc.client_secret_file = Some(path.clone());
    let error = config.oidc_settings().unwrap_err().to_string();
    assert!(error.contains("secret is not there"), "{error}");
    let put = |text: &str, mode| {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        config.oidc_settings()
    };
    let error = put("s3cret\n", 0o640).unwrap_err().to_string();
    assert!(error.contains("its mode is 640") && error.contains("chmod 600"));
    let secret = put("s3cret\n", 0o600).unwrap().unwrap().client_secret;
    assert_eq!(secret.unwrap().0, "s3cret");
    let error = put("\n", 0o600).unwrap_err().to_string();
    assert!(
        error.contains("oidc.client_secret_file: is not 1 to 1024"),
        "{error}"
    );
    let oidc = config.oidc.as_mut().unwrap();
    (oidc.client_secret_file, oidc.ca) = (None, Some(path.clone()));
    let error = config.oidc_settings().unwrap_err().to_string();
    assert!(error.contains("oidc.ca: is not PEM"), "{error}");
}

#[test]
fn files_of_tls_to_etcd_are_read_and_judged_when_the_node_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let with = |more: &[&str]| {
        let mut config = config();
        config.metadata.addresses.clear();
        config.metadata.etcd = vec!["https://127.0.0.1:1".to_owned()];
        let named = |name: &str| more.contains(&name).then(|| path(name));
        config.metadata.ca = named("ca.pem");
        config.metadata.certificate = named("own.pem");
        config.metadata.key = named("key.pem");
        config.check().unwrap();
        config
            .etcd_config()
            .map(|found| found.unwrap().tls.is_some())
    };
    let says = |more: &[&str]| with(more).unwrap_err().to_string();
    let all = ["ca.pem", "own.pem", "key.pem"];
    assert!(
        says(&all).starts_with("metadata.ca: read /"),
        "{}",
        says(&all)
    );
    fs::write(path("ca.pem"), "no certificate").unwrap();
    let none = says(&all[..1]);
    assert!(
        none.contains("ca.pem has no certificate of an authority"),
        "{none}"
    );
    let made = |name: &str| {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    };
    let ((own, key), (other, _)) = (made("a"), made("b"));
    fs::write(path("ca.pem"), &other).unwrap();
    assert_eq!(with(&all[..1]), Ok(true));
    fs::write(path("own.pem"), &key).unwrap();
    fs::write(path("key.pem"), &key).unwrap();
    assert!(says(&all).contains("own.pem has no certificate, as PEM"));
    fs::write(path("own.pem"), &other).unwrap();
    assert!(says(&all).contains("key.pem is not the key of the certificate"));
    fs::write(path("own.pem"), &own).unwrap();
    assert_eq!(with(&all), Ok(true));
    fs::write(path("key.pem"), &own).unwrap();
    assert!(says(&all).contains("key.pem has no private key"));
}

#[test]
fn when_what_is_shown_to_etcd_is_good_follows_the_files_while_they_are_of_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut config = config();
    config.metadata.addresses.clear();
    config.metadata.etcd = vec!["https://127.0.0.1:1".to_owned()];
    config.metadata.ca = Some(path("own.pem"));
    let shown = ShownToEtcd::new(&config);
    assert_eq!(shown.good(), None, "nothing is shown");
    config.metadata.certificate = Some(path("own.pem"));
    config.metadata.key = Some(path("key.pem"));
    let made = |year: i32| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["a".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let own = params.self_signed(&key).unwrap();
        (own.pem(), key.serialize_pem())
    };
    // Seconds from 1970 until the begin of that year.
    let begin = |year: u64| {
        let days = (year - 1970) * 365 + (year - 1969) / 4;
        SystemTime::UNIX_EPOCH + Duration::from_secs(days * 24 * 60 * 60)
    };
    let until = |year| Some(begin(year - 1)..begin(year));
    let ((own, key), (later, its_key)) = (made(2040), made(2041));
    fs::write(path("own.pem"), &own).unwrap();
    fs::write(path("key.pem"), &key).unwrap();
    let shown = ShownToEtcd::new(&config);
    let start = Instant::now();
    let at = |seconds| shown.good_at(start + Duration::from_secs(seconds));
    assert_eq!(at(0), until(2040));
    // Between the one file and the other they are of no use, and what was read is used on.
    fs::write(path("own.pem"), &later).unwrap();
    assert_eq!(at(60), until(2040));
    fs::write(path("key.pem"), &its_key).unwrap();
    assert_eq!(at(61), until(2040), "they are not read all the time");
    assert_eq!(at(120), until(2041));
    // What etcd keeps here is shown what other machines are.
    config.etcd = Some(toml::from_str("[members]\nn1 = \"192.0.2.1\"\n").unwrap());
    assert_eq!(ShownToEtcd::new(&config).good(), None);
}

#[test]
fn members_of_etcd_have_tls_unless_a_file_says_otherwise() {
    let with = |more: &str, security: &str| -> NodeConfig {
        let section =
            format!("[etcd]\n{more}\n[etcd.members]\nn1 = \"192.0.2.1\"\nn2 = \"192.0.2.2\"\n");
        let text = TEXT.replace("[metadata]\naddresses = [\"127.0.0.1:7460\"]\n", &section);
        toml::from_str(&(text + security)).unwrap()
    };
    let directory = PathBuf::from("/srv/holdfast/n1/tls");
    let on = with("", "");
    assert_eq!(
        (on.check(), on.etcd_tls()),
        (Ok(()), MemberTls::On(directory.clone()))
    );
    let has_tls = |config: &NodeConfig| match config.metadata_source() {
        Ok(MetadataSource::Etcd(endpoints)) => endpoints.iter().all(EtcdEndpoint::has_tls),
        other => panic!("it is in etcd, not in {other:?}"),
    };
    assert!(has_tls(&on));
    assert!(
        on.subject().hosts.contains(&"192.0.2.1".to_owned()),
        "others know it by that"
    );
    let plain = with("plain = true", "");
    assert_eq!(plain.etcd_tls(), MemberTls::Coming(directory));
    assert!(!has_tls(&plain));
    assert_eq!(
        toml::from_str::<NodeConfig>(&plain.to_toml()).unwrap(),
        plain
    );
    let off = with("", "[security]\noff = true\n");
    assert_eq!((off.etcd_tls(), has_tls(&off)), (MemberTls::Off, false));

    let witness = |more: &str| -> witness::WitnessConfig {
        let text = format!(
            "cluster = \"0123456789abcdef0123456789abcdef\"\nname = \"n3\"\ndirectory = \"/nowhere\"\n{more}\n\
             [etcd.members]\nn1 = \"192.0.2.1\"\nn3 = \"192.0.2.3\"\n"
        );
        toml::from_str(&text).unwrap()
    };
    let on = witness("");
    assert_eq!(on.etcd_tls(), MemberTls::On("/nowhere/tls".into()));
    assert_eq!(
        (on.subject().node, on.subject().hosts),
        (holdfast_tls::WITNESS, vec!["192.0.2.3".to_owned()])
    );
    // Without credentials it has nothing to show to those that have TLS.
    assert_eq!(witness("etcd.plain = true").etcd_tls(), MemberTls::Off);
    assert_eq!(witness("security.off = true").etcd_tls(), MemberTls::Off);
    let relative = toml::from_str::<witness::WitnessConfig>(&toml::to_string(&on).unwrap());
    assert_eq!(relative.unwrap(), on);
}

/// Keys whose values are no secrets, as far as their names do not say so: support bundles have them.
const TOLD: &[&str] = &[
    "cluster",
    "node",
    "name",
    "failure_domain",
    "directory",
    "disk_driver",
    "portal.listen",
    "portal.advertise",
    "peers.listen",
    "peers.advertise",
    "api.listen",
    "api.advertise",
    "etcd.members",
    "etcd.member",
    "etcd.program",
    "etcd.client_port",
    "etcd.peer_port",
    "etcd.plain",
    "metadata.etcd",
    "metadata.ca",
    "metadata.certificate",
    "metadata.plain",
    "metadata.addresses",
    "devices.path",
    "devices.file_bytes",
    "devices.preallocate",
    "devices.tier",
    "cache.bytes_max",
    "history.bytes_max",
    "log.bytes_max",
    "log.level",
    "log.format",
    "security.directory",
    "security.off",
    "oidc.issuer",
    "oidc.client_id",
    "oidc.ca",
    "oidc.external_url",
    "oidc.name",
    "oidc.scopes",
    "oidc.username_claim",
    "oidc.roles_claim",
    "oidc.roles",
];

#[test]
fn of_every_key_it_is_said_whether_it_is_a_secret() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let keys = rows.flat_map(|row| {
        let column = row.split('|').nth(1).unwrap_or_default();
        column.split('`').skip(1).step_by(2)
    });
    let mut removed = Vec::new();
    for key in keys {
        if TOLD.contains(&key) {
            continue;
        }
        // Another one is put into the list above, or has a name by which it is taken out of what is given away.
        let name = key.rsplit('.').next().unwrap_or(key);
        assert!(holdfast_api::redaction::is_secret(name), "{key}");
        removed.push(key);
    }
    assert!(removed.contains(&"metadata.token"), "{removed:?}");
}
