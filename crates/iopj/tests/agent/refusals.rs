//! What a run over fabrics says when it cannot begin: one message with host, thing, cause and remedy, exit
//! code 2, no store, and nothing left on either side.

use crate::common::{LoopDevice, have_loop, have_mounts, mounted, output, tool, written};
use crate::server::{Server, have_sshd};
use std::path::Path;

/// A study on a drive of the target host; this machine has no NVMe target.
pub(crate) fn study(folder: &Path, device: &str, more: &str) {
    let text = format!(
        "name = \"far\"\npaths = \"io_uring/syscall/interrupt\"\nmeters = \"none\"\n[fabric]\ntarget_host = \
         \"target\"\ndevice = \"{device}\"\naddress = \"127.0.0.1\"\ntransport = \"tcp\"\nagent = \
         \"{}\"\n{more}\n[[workload]]\nios = 10\n",
        env!("CARGO_BIN_EXE_iopj")
    );
    std::fs::write(folder.join("far.toml"), text).unwrap();
}

/// Demands that a run is refused with all of these words, and leaves no store.
#[track_caller]
pub(crate) fn refused(server: &Server, line: &str, words: &[&str]) -> String {
    let (output, message) = output(&mut server.iopj(line));
    assert_eq!(output.status.code(), Some(2), "{message}");
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
    assert!(!server.folder.join("far.iopj").exists());
    let left: Vec<String> = std::fs::read_dir("/tmp")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| {
            let socket = Path::new("/tmp").join(name).join("s");
            name.starts_with("iopj-") && name.len() == 21 && socket.exists()
        })
        .collect();
    assert_eq!(left, Vec::<String>::new());
    message
}

pub(crate) const RUN: &str = "run far.toml --allow exec,secrets,hosts";

#[test]
fn a_host_that_ssh_does_not_reach_is_named_with_the_remedy() {
    if !have_sshd() {
        return;
    }
    let _alone = crate::common::alone();
    let server = Server::start();
    study(&server.folder, "/dev/sda", "");
    let good = std::fs::read_to_string(server.folder.join("ssh_config")).unwrap();
    let with = |from: &str, to: &str| server.configure(|_| good.replace(from, to));
    with(&format!("Port {}", server.port), "Port 1");
    refused(&server, RUN, &["target: ssh does not get there", "Connection refused", "runs an ssh server"]);
    let user = server.folder.join("user").display().to_string();
    with(&user, &server.folder.join("stranger").display().to_string());
    refused(&server, RUN, &["target: ssh may not log in", "never asks for a password", "ssh-copy-id"]);
    with("known_hosts", "no_known_hosts");
    refused(&server, RUN, &["target: ssh does not know the host's key", "connect once by hand"]);
    server.configure(|_| good.clone());
    study(&server.folder, "/dev/sda", "");
    let text = std::fs::read_to_string(server.folder.join("far.toml")).unwrap();
    for (agent, words) in [
        ("/no/such/iopj", "there is no `/no/such/iopj`"),
        (
            "echo This account is closed; :",
            "no agent of iopj answered; its last line was `This account is closed`",
        ),
    ] {
        let changed = text.replace(env!("CARGO_BIN_EXE_iopj"), agent);
        std::fs::write(server.folder.join("far.toml"), changed).unwrap();
        refused(&server, RUN, &[words]);
    }
}

#[test]
fn a_drive_that_the_target_host_does_not_have_or_export_is_named() {
    if !have_sshd() || !have_loop() {
        return;
    }
    let _alone = crate::common::alone();
    let server = Server::start();
    study(&server.folder, "/dev/no-such-drive", "");
    refused(&server, RUN, &["target: ", "/dev/no-such-drive"]);
    written(&server.folder.join("image"), 1 << 20);
    let device = LoopDevice::new(&server.folder.join("image"), "--direct-io=on");
    study(&server.folder, device.node(), "target.nomerges = 2");
    refused(&server, RUN, &["target: the drive cannot be exported", "`modprobe nvmet`"]);
    let nomerges = format!("/sys/block/{}/queue/nomerges", device.name());
    assert_eq!(std::fs::read_to_string(nomerges).unwrap().trim(), "0");
}

/// Every check of a drive that is to be overwritten is made on its own host.
#[test]
fn a_drive_that_may_not_be_overwritten_there_is_refused_by_its_host() {
    if !have_sshd() || !have_mounts() {
        return;
    }
    let _alone = crate::common::alone();
    let server = Server::start();
    let image = server.folder.join("image");
    written(&image, 16 << 20);
    let device = LoopDevice::new(&image, "--direct-io=on");
    tool(&format!("mkfs.ext4 -q -F {}", device.node()));
    let before = std::fs::read(&image).unwrap();
    study(&server.folder, device.node(), "");
    let named = format!("{RUN} --rw randwrite --destroy-data target:{}", device.node());
    refused(&server, &named, &[&format!("target: `{}` carries ", device.node()), "ext4", "--i-know"]);
    refused(
        &server,
        &format!("{RUN} --rw randwrite --i-know --destroy-data target:/dev/sda"),
        &[&format!("the study writes to target:{}", device.node()), "allow it by --destroy-data target:"],
    );
    refused(
        &server,
        &format!("{RUN} --destroy-data target:{}", device.node()),
        &["the study writes nothing: leave the option out"],
    );
    let at = server.folder.join("mounted");
    let _mounted = mounted(&format!("-o ro {}", device.node()), &at);
    let cause = format!("{} is mounted on {}", device.name(), at.display());
    let here = format!("target: `{}` cannot be written: ", device.node());
    refused(&server, &format!("{named} --i-know"), &[&here, &cause]);
    assert!(std::fs::read(&image).unwrap() == before, "the drive was written");
}

/// An agent of a later iopj, which answers the first line.
const NEWER: &str = r#"#!/bin/sh
read -r line
session=$(echo "$line" | grep -o '[0-9a-f-]\{36\}')
cat <<END
{"hello":{"session":"$session","hello":{"version":99,"iopj":"7.5.0","architecture":"x86_64","host":"far","kernel":"6","root":true}}}
END
cat >/dev/null
"#;

/// What stands in for iopj on the target host: a program for another processor, and one of another version.
#[test]
fn an_iopj_that_is_not_this_one_is_named_with_the_remedy() {
    if !have_sshd() {
        return;
    }
    let _alone = crate::common::alone();
    let server = Server::start();
    study(&server.folder, "/dev/sda", "");
    let text = std::fs::read_to_string(server.folder.join("far.toml")).unwrap();
    let agent = |name: &str, content: &[u8]| {
        let (made, file) = (server.folder.join("made"), server.folder.join(name));
        std::fs::write(&made, content).unwrap();
        crate::common::install(&made, &file);
        let changed = text.replace(env!("CARGO_BIN_EXE_iopj"), file.to_str().unwrap());
        std::fs::write(server.folder.join("far.toml"), changed).unwrap();
    };
    // Its own header, with another machine (elf(5), `e_machine`): S/390, on which no test of ours runs.
    let mut foreign = std::fs::read(env!("CARGO_BIN_EXE_iopj")).unwrap();
    foreign.truncate(4096);
    foreign[18..20].copy_from_slice(&22_u16.to_le_bytes());
    agent("foreign", &foreign);
    refused(&server, RUN, &["target: ", "cannot be run there", "is it built for that processor?"]);
    agent("newer", NEWER.as_bytes());
    let own = env!("CARGO_PKG_VERSION");
    refused(
        &server,
        RUN,
        &[
            "target runs iopj 7.5.0 (protocol 99)",
            &format!("this is iopj {own} "),
            "use the same on both; --push",
        ],
    );
}

#[test]
fn options_that_do_not_fit_are_refused_before_anything_is_asked() {
    if !have_sshd() {
        return;
    }
    // The control connection of another test would be taken for one that is left.
    let _alone = crate::common::alone();
    let server = Server::start();
    study(&server.folder, "/dev/sda", "");
    refused(&server, "run far.toml", &["`fabric.agent` = ", "runs a program", "--allow exec,hosts"]);
    refused(&server, &format!("{RUN} --target /dev/sda"), &["leave --target out"]);
    refused(&server, &format!("{RUN} --rw randwrite"), &["allow it by --destroy-data target:/dev/sda"]);
    refused(
        &server,
        &format!("{RUN} --rw randwrite --destroy-data /dev/sda"),
        &["allow it by --destroy-data target:/dev/sda"],
    );
    study(&server.folder, "/dev/sda", "");
    let text = std::fs::read_to_string(server.folder.join("far.toml")).unwrap();
    let option = text.replace("\"target\"", "\"-oProxyCommand=x\"");
    std::fs::write(server.folder.join("far.toml"), option).unwrap();
    refused(&server, RUN, &["`-oProxyCommand=x` is not a host"]);
    let looped = text.replace("\"tcp\"", "\"loop\"");
    std::fs::write(server.folder.join("far.toml"), looped).unwrap();
    refused(&server, RUN, &["no transport over a wire"]);
}

/// The copy is checked by its hash, and used.
#[test]
fn iopj_copies_itself_there_if_it_is_asked_to() {
    if !have_sshd() {
        return;
    }
    let _alone = crate::common::alone();
    let server = Server::start();
    study(&server.folder, "/dev/no-such-drive", "");
    let text = std::fs::read_to_string(server.folder.join("far.toml")).unwrap();
    let plain: String =
        text.lines().filter(|line| !line.starts_with("agent")).map(|line| format!("{line}\n")).collect();
    std::fs::write(server.folder.join("far.toml"), plain).unwrap();
    refused(&server, "run far.toml --allow hosts", &["there is no `iopj`", "let --push copy this one"]);
    refused(&server, "run far.toml --allow hosts --push", &["/dev/no-such-drive"]);
    let folder = server.folder.join("home/.cache/iopj");
    let entry = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let copied = std::fs::metadata(entry.join("iopj")).unwrap();
    assert_eq!(copied.len(), std::fs::metadata(env!("CARGO_BIN_EXE_iopj")).unwrap().len());
    let modified = copied.modified().unwrap();
    // It is there: nothing is copied again.
    refused(&server, "run far.toml --allow hosts --push", &["/dev/no-such-drive"]);
    assert_eq!(std::fs::metadata(entry.join("iopj")).unwrap().modified().unwrap(), modified);
}
