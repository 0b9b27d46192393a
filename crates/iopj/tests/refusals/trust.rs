//! Files of strangers: what a study may touch without leave, and files that are no files.

use crate::common::{self, folder, have, have_mounts, iopj, tool};
use crate::{PLAIN, refused, refuses, succeeds};
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

const HEAD: &str = "name = \"t\"\npaths = \"posix-sio/syscall/interrupt\"\nsize = \"1m\"\n";
const WORKLOAD: &str = "[[workload]]\nios = 200\n";

/// Asserts that a study with these tables is refused by each command that would open what it names.
#[track_caller]
fn each_refuses(folder: &Path, tables: &str, parts: &[&str]) {
    fs::write(folder.join("t.toml"), format!("{HEAD}{tables}\n{WORKLOAD}")).unwrap();
    for line in ["run t.toml", "run t.toml --dry-run", "meter test t.toml", "fleet submit t.toml --ssh n1"] {
        if line.starts_with("fleet") && tables.contains("[fabric]") {
            continue;
        }
        refuses(folder, line, parts);
    }
}

/// As `refuses`, of a command that hung.
#[track_caller]
fn refuses_at_once(folder: &Path, line: &str, parts: &[&str]) {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_iopj")]).args(line.split_whitespace()).current_dir(folder);
    refused(&mut command, folder, parts);
}

/// Any file of one line and any variable were sent to the study's address, also by a dry run.
#[test]
fn a_secret_is_read_only_where_it_is_allowed() {
    let folder = folder();
    fs::write(folder.join("vault-token"), "hvs.secret\n").unwrap();
    let meter = |keys: &str| {
        format!(
            "[meters.a]\nkind = \"http\"\nurl = \"http://127.0.0.1:9/\"\nvalues = [{{ pointer = \"/w\" }}]\n\
             {keys}"
        )
    };
    let sends =
        "reads a secret, which is sent to the meter: read the study, then allow it by --allow secrets";
    let part = "`meters.a.password_file` = `vault-token`";
    each_refuses(&folder, &meter("password_file = \"vault-token\""), &[part, sends]);
    each_refuses(&folder, &meter("password_env = \"PATH\""), &["`meters.a.password_env` = `PATH`", sends]);
    let snmp = "[meters.b]\nkind = \"snmp\"\nhost = \"127.0.0.1:9\"\ncommunity_file = \"vault-token\"\n\
                channels = [{ name = \"o\", preset = \"apc-outlet-power\", index = 1 }]";
    each_refuses(&folder, snmp, &["`meters.b.community_file` = `vault-token`", sends]);
}

#[test]
fn a_program_is_run_only_where_it_is_allowed() {
    let folder = folder();
    let runs = "runs a program: read the study, then allow it by --allow exec";
    let fio = "meters = \"none\"\n[fio]\nprogram = \"./fio\"";
    each_refuses(&folder, fio, &["`fio.program` = `./fio`", runs]);
    let plugin = "meters = \"none\"\n[fio]\nspdk_plugin = \"./spdk\"";
    each_refuses(&folder, plugin, &["`fio.spdk_plugin` = `./spdk`", runs]);
    let meter = "[meters.a]\nkind = \"command\"\nscope = \"system\"\ncommand = [\"./watts\", \"--all\"]";
    each_refuses(&folder, meter, &["`meters.a.command` = `./watts --all`", runs]);
}

/// The first request went out unannounced, and to wherever the study said.
#[test]
fn a_meter_is_asked_at_near_addresses_alone_and_named_before() {
    let folder = folder();
    let far =
        "which is neither a loopback nor a private address: if the meter is there, allow it by --allow hosts";
    for (keys, address) in [
        (
            "kind = \"http\"\nurl = \"http://169.254.169.254/w\"\nvalues = [{ pointer = \"/w\" }]",
            "169.254.169.254",
        ),
        ("kind = \"http\"\nurl = \"http://[fe80::1]/w\"\nvalues = [{ pointer = \"/w\" }]", "fe80::1"),
        ("kind = \"redfish\"\nurl = \"https://192.0.2.1\"", "192.0.2.1"),
        (
            "kind = \"snmp\"\nhost = \"192.0.2.1\"\nchannels = [{ name = \"o\", preset = \
             \"apc-outlet-power\", index = 1 }]",
            "192.0.2.1",
        ),
    ] {
        fs::write(folder.join("t.toml"), format!("{HEAD}[meters.a]\n{keys}\n{WORKLOAD}")).unwrap();
        for line in ["run t.toml", "run t.toml --dry-run"] {
            refuses(&folder, line, &["the meter `a`: ", &format!("is at {address}, {far}")]);
        }
    }
    let near = "[meters.a]\nkind = \"http\"\nurl = \"http://127.0.0.1:9/w?token=sesame\"\n\
                values = [{ pointer = \"/w\" }]";
    fs::write(folder.join("t.toml"), format!("{HEAD}{near}\n{WORKLOAD}")).unwrap();
    let output = iopj(&folder, "run t.toml").output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("meters asked over the network: `a` at http://127.0.0.1:9\n"), "{words}");
    assert!(!words.contains("sesame"), "{words}");
}

/// A file, and a disk that was mounted, were overwritten from their first byte.
#[test]
fn a_stream_is_a_socket_or_a_device_of_characters() {
    let folder = folder();
    fs::write(folder.join("victim"), "precious").unwrap();
    let victim = folder.join("victim").display().to_string();
    let study = |host: &str| {
        let fabric = format!(
            "meters = \"none\"\n[fabric]\ntarget_host = \"{host}\"\nfolder = \"/srv\"\naddress = \
             \"127.0.0.1\"\n\
             transport = \"tcp\""
        );
        fs::write(folder.join("t.toml"), format!("{HEAD}{fabric}\n{WORKLOAD}")).unwrap();
    };
    study(&victim);
    refuses(&folder, "run t.toml", &["`fabric.target_host` = `", "reaches another host", "--allow hosts"]);
    let no_stream = "it is neither a socket nor a device of characters such as a serial line";
    refuses_at_once(&folder, "run t.toml --allow hosts", &[&victim, no_stream]);
    study("/dev/null");
    refuses_at_once(&folder, "run t.toml --allow hosts", &["/dev/null", no_stream]);
    assert_eq!(fs::read_to_string(folder.join("victim")).unwrap(), "precious");
}

/// The first line of /etc/shadow was printed.
#[test]
fn what_is_no_trace_and_no_policy_is_not_quoted() {
    let folder = folder();
    fs::write(folder.join("shadow.toml"), "root:$y$j9T$verysecret:20000:0:99999:7:::\n").unwrap();
    for line in [
        format!("run {PLAIN} --size 1m --read-iolog shadow.toml --replay-skip write,discard"),
        "run --meters none --size 1m --ios 10 --path auto:shadow.toml".to_owned(),
        "policy show shadow.toml".to_owned(),
    ] {
        let (_, words) = common::output(&mut iopj(&folder, &line));
        assert!(words.contains("shadow") && !words.contains("secret"), "{words}");
        refuses(&folder, &line, &["shadow"]);
    }
}

/// Each waited for somebody to write into the pipe, and the first signal changed nothing.
#[test]
fn a_pipe_in_place_of_a_file_is_refused_at_once() {
    let folder = folder();
    assert!(Command::new("mkfifo").arg(folder.join("pipe.toml")).status().unwrap().success());
    let _listener = UnixListener::bind(folder.join("socket.toml")).unwrap();
    for (name, what) in
        [("pipe.toml", "it is a pipe, not a file"), ("socket.toml", "it is a device or socket, not a file")]
    {
        let trace = format!("run {PLAIN} --size 1m --read-iolog {name} --replay-skip write,discard");
        refuses_at_once(&folder, &trace, &[name, what]);
        let policy = format!("run --meters none --size 1m --ios 10 --path auto:{name}");
        refuses_at_once(&folder, &policy, &[name, what]);
        for meter in [
            format!(
                "kind = \"http\"\nurl = \"http://127.0.0.1:9/\"\nvalues = [{{ pointer = \"/w\" }}]\n\
                 password_file = \"{name}\""
            ),
            format!("kind = \"redfish\"\nurl = \"https://127.0.0.1:9\"\nca_file = \"{name}\""),
            format!("kind = \"model\"\nfile = \"{name}\""),
        ] {
            fs::write(folder.join("t.toml"), format!("{HEAD}[meters.a]\n{meter}\n{WORKLOAD}")).unwrap();
            refuses_at_once(&folder, "run t.toml --allow secrets", &["the meter `a`: ", name, what]);
        }
        let watched = "name = \"t\"\ngenerator = \"program\"\nmeters = \"none\"\n[program]\nfigure = \
                       { name = \"n\", unit = \"1/s\", regex = '(1)' }\n";
        let program = format!(
            "{watched}watch = [\"{name}\"]\n[[program.variants]]\nname = \"a\"\ncommand = [\"true\"]\n"
        );
        fs::write(folder.join("t.toml"), format!("{program}{WORKLOAD}").replace("ios = 200", "")).unwrap();
        refuses_at_once(&folder, "run t.toml --allow exec", &[name, what]);
    }
}

/// The page of before was empty when the disk was full, and a link was followed.
#[test]
fn a_page_is_the_old_one_or_the_new_one_and_no_link_is_followed_by_root() {
    let folder = folder();
    succeeds(&mut iopj(&folder, &format!("run {PLAIN} --size 1m --store s.iopj")));
    let (page, _) = succeeds(&mut iopj(&folder, "report s.iopj --html page.html"));
    assert_eq!(page, "page.html\n");
    let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
    let before = names(&folder);
    succeeds(&mut iopj(&folder, "report s.iopj --html page.html"));
    assert_eq!(names(&folder), before, "nothing is left beside it");
    if have(common::is_root(), "root") {
        fs::write(folder.join("victim"), "precious").unwrap();
        std::os::unix::fs::symlink("victim", folder.join("link.html")).unwrap();
        refuses(&folder, "report s.iopj --html link.html", &["link.html cannot be written", "symbolic link"]);
    }
    if have_mounts() {
        let full = folder.join("full");
        fs::create_dir(&full).unwrap();
        tool(&format!("mount -t tmpfs -o size=16k tmpfs {}", full.display()));
        fs::write(full.join("page.html"), "before").unwrap();
        let output = iopj(&folder, "report s.iopj --html full/page.html").output().unwrap();
        let (left, count) = (fs::read_to_string(full.join("page.html")), names(&full));
        tool(&format!("umount {}", full.display()));
        assert_eq!(output.status.code(), Some(2));
        assert_eq!((left.unwrap().as_str(), count), ("before", 1));
    }
}

/// What changes the direction of text, or cannot be seen, went through to the terminal.
#[test]
fn text_of_others_is_harmless_where_it_leaves() {
    let folder = folder();
    succeeds(&mut iopj(&folder, &format!("run {PLAIN} --size 1m --store s.iopj")));
    let store = rusqlite::Connection::open(folder.join("s.iopj")).unwrap();
    let evil = "DELETE FROM checksum; UPDATE study SET record = json_set(record, '$.provenance.cpu_model', \
                'CPU' || char(8238) || 'x' || char(27) || '[2J' || char(8203))";
    store.execute_batch(evil).unwrap();
    drop(store);
    for line in ["report s.iopj", "report s.iopj --json", "export s.iopj --csv", "export s.iopj --json"] {
        let (text, _) = succeeds(&mut iopj(&folder, line));
        let harms = |c: char| matches!(c, '\u{202e}' | '\u{1b}' | '\u{200b}');
        assert!(!text.contains(harms), "{line}");
    }
    let (json, _) = succeeds(&mut iopj(&folder, "report s.iopj --json"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["study"]["provenance"]["cpu_model"], "CPU\u{202e}x\u{1b}[2J\u{200b}");
}
