//! What a demo says when it serves.
//!
//! Invariant: it says nothing that `demo.json` does not.

use std::collections::BTreeMap;

use holdfast_model::ByteSize;

use super::file::DemoFile;
use super::layout::Layout;
use crate::output::{quoted, table};

/// What is there, and what can be done with it.
pub(crate) fn summary(layout: &Layout, file: &DemoFile) -> String {
    let nodes: Vec<_> = file
        .nodes
        .iter()
        .map(|node| {
            [
                node.name.clone(),
                node.pid.to_string(),
                node.portal.clone(),
                node.api.clone(),
            ]
        })
        .collect();
    let volumes: Vec<_> = file
        .volumes
        .iter()
        .map(|volume| {
            [
                volume.name.clone(),
                ByteSize(volume.bytes).to_string(),
                volume.policy.to_string(),
                volume.target.clone(),
            ]
        })
        .collect();
    let mut text = format!(
        "Every volume is served at every portal. Everything is in {}\n\n{}\n{}",
        layout.directory().display(),
        table(["NODE", "PROCESS", "PORTAL", "API"], &nodes),
        table(["VOLUME", "SIZE", "POLICY", "TARGET"], &volumes),
    );
    let machines = machines(file);
    if !machines.is_empty() {
        text.push_str(&format!("\nmachines    {}\n", machines.join(", ")));
    }
    if let (Some(node), Some(volume)) = (file.nodes.first(), file.volumes.first()) {
        let image = format!("iscsi://{}/{}/{}", node.portal, volume.target, volume.lun);
        text.push_str(&format!("\nuse it      qemu-img info {image}\n"));
        text.push_str(&format!(
            "            iscsiadm -m discovery -t sendtargets -p {}\n",
            node.portal
        ));
    }
    text.push_str(&looking(layout, file));
    text.push_str(&format!(
        "break it    kill -9 PROCESS; the line that starts the node again is printed here then\n            \
         (programs find both, as pid and command, in {})\n",
        quoted(&layout.file_path().display().to_string())
    ));
    text.push_str("stop it     Ctrl-C\n");
    text
}

/// How it is looked at, by commands and in a browser.
fn looking(layout: &Layout, file: &DemoFile) -> String {
    let mut text = String::new();
    match &file.ca {
        // Paths of a demo may have what a shell takes for something else.
        Some(ca) => text.push_str(&format!(
            "look at it  export HOLDFAST_API={} HOLDFAST_CA={} HOLDFAST_TOKEN=$(cat {})\n            holdfast status\n",
            file.api,
            quoted(ca),
            quoted(&layout.token_path().display().to_string())
        )),
        None if file.api == "http://127.0.0.1:7460" => {
            text.push_str("look at it  holdfast status\n");
        }
        None => text.push_str(&format!("look at it  holdfast status --api {}\n", file.api)),
    }
    text.push_str(&format!("            {}/ in a browser\n", file.api));
    if let Some(ca) = &file.ca {
        text.push_str(&format!(
            "            which warns that the connection is not private: Advanced goes on, or have it trust\n            {}\n",
            quoted(ca)
        ));
    }
    if let Some(login) = &file.login {
        text.push_str(&format!(
            "            as {}, with the password in {}\n",
            login.user, login.password_file
        ));
    }
    text
}

/// A command, as it is given to a shell.
pub(crate) fn line(command: &[String]) -> String {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&letter);
    let words = command.iter().map(|word| {
        if !word.is_empty() && word.bytes().all(is_plain) {
            word.clone()
        } else {
            quoted(word)
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The machines that have several nodes, each with these.
fn machines(file: &DemoFile) -> Vec<String> {
    let nodes = file.nodes.iter();
    let nodes = nodes.filter_map(|node| Some((node.failure_domain.as_ref()?, &node.name)));
    let mut machines: BTreeMap<&String, Vec<&str>> = BTreeMap::new();
    for (machine, node) in nodes {
        machines.entry(machine).or_default().push(node);
    }
    let machines = machines.into_iter();
    machines
        .map(|(machine, nodes)| format!("{machine} ({})", nodes.join(" ")))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_command_is_a_line_for_a_shell() {
        let line = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            super::line(&words)
        };
        let plain = ["/usr/bin/holdfast", "node", "--config", "/d/n1/node.toml"];
        assert_eq!(
            line(&plain),
            "/usr/bin/holdfast node --config /d/n1/node.toml"
        );
        let folder = ["/my holdfast", "node", "--config", "/it's/$n1"];
        assert_eq!(
            line(&folder),
            r"'/my holdfast' node --config '/it'\''s/$n1'"
        );
        assert_eq!(line(&[""]), "''");
    }
}
