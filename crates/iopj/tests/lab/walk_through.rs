//! The walk-through of docs/fabric.md in two guests: a real ssh server on the target host, the study and the
//! commands as the page has them.

use crate::common::{alone_with_guests, folder, have};
use crate::have_pair;
use crate::pair::{LEFT, NOTHING, scripts_with};
use iopj_core::VerdictKind;
use iopj_store::Store;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is between two marks on a page.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    text.split_once(begin).unwrap().1.split_once(end).unwrap().0
}

/// The target host: a server that takes the user's key, as `ssh root@storage1` must work.
const SERVER: &str = r#"
mkdir -p /root/.ssh /run/sshd /etc/ssh
printf 'root:x:0:0::/root:/bin/sh\nsshd:x:74:74::/run/sshd:/bin/false\n' >/etc/passwd
printf 'root:x:0:\nsshd:x:74:\n' >/etc/group
cat >/etc/ssh/key <<'END'
HOST_KEYEND
cat >/root/.ssh/authorized_keys <<'END'
USER_PUBLICEND
chmod 700 /root/.ssh /run/sshd && chmod 600 /etc/ssh/key
exec /usr/sbin/sshd -D -e -f /dev/null -o HostKey=/etc/ssh/key -o UsePAM=no -o PidFile=none
"#;

/// The server's programs. Before OpenSSH 9.8 it was the first alone, and before 10.0 it had no third.
const SERVER_PROGRAMS: [&str; 3] =
    ["/usr/sbin/sshd", "/usr/lib/openssh/sshd-session", "/usr/lib/openssh/sshd-auth"];

/// The host: the user's own configuration, the study, and the two commands.
const USER: &str = r#"
export PATH=/bin:/sbin:/usr/bin
mkdir -p /root/.ssh && chmod 700 /root/.ssh
printf 'root:x:0:0::/root:/bin/sh\n' >/etc/passwd
echo '10.1.0.1 storage1' >/etc/hosts
cat >/root/.ssh/id_ed25519 <<'END'
USER_KEYEND
chmod 600 /root/.ssh/id_ed25519
printf 'storage1 %s\n' 'HOST_PUBLIC' >/root/.ssh/known_hosts
tries=100
until ssh -o BatchMode=yes root@storage1 true 2>/tmp/ssh || [ $tries = 0 ]; do
	tries=$((tries - 1))
	sleep 0.2
done
cat /tmp/ssh
cat >far.toml <<'END'
STUDYEND
COMMANDS
cp far.iopj /out/study-1.iopj
NOTHING
cat >/tmp/left <<'END'
LEFT
left
END
there() {
	ssh -o BatchMode=yes root@storage1 sh </tmp/left
}
tries=100
while [ -n "$(there)" ] && [ $tries -gt 0 ]; do
	tries=$((tries - 1))
	sleep 1
done
echo "left there: [$(there)]"
"#;

#[test]
fn the_walk_through_of_the_page_works_as_written() {
    walk_through(1);
}

/// With the command that copies iopj there as well.
#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_the_whole_walk_through_of_the_page_works_as_written() {
    walk_through(2);
}

/// Does the walk-through with the first of its commands.
fn walk_through(count: usize) {
    let has = |program: &str| Path::new(program).exists();
    let programs = has(SERVER_PROGRAMS[0]) && has("/usr/bin/ssh");
    if !have_pair(&["6.18"]) || !have(programs, "sshd and ssh (openssh-server)") {
        return;
    }
    let (_alone, folder) = (alone_with_guests(), folder());
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fabric.md");
    let page = std::fs::read_to_string(page).unwrap();
    let study = between(&page, "```toml\n", "```");
    // Times mean nothing here, so the windows may be short.
    let shorter = study.replace("\"2s\"", "\"100ms\"").replace("\"10s\"", "\"300ms\"");
    assert_ne!(study, shorter);
    let command = |line: &str| line.split('#').next().unwrap().trim_end().to_owned();
    let commands: Vec<String> = between(&page, "```sh\n", "```").lines().map(command).collect();
    let expected = ["iopj run far.toml --allow hosts", "iopj run far.toml --allow hosts --push"];
    assert_eq!(commands, expected);
    let one = |command: &String| {
        format!("{command} --replicates 1 >/dev/null 2>/tmp/said; echo \"status $?\"; tail -n 3 /tmp/said\n")
    };
    let ([user, user_public], [host, host_public]) = (key(&folder, "user"), key(&folder, "host"));
    let target = SERVER.replace("HOST_KEY", &host).replace("USER_PUBLIC", &user_public);
    let user = USER
        .replace("USER_KEY", &user)
        .replace("HOST_PUBLIC", host_public.trim())
        .replace("STUDY", &shorter)
        .replace("COMMANDS", &commands[..count].iter().map(one).collect::<String>())
        .replace("NOTHING", NOTHING)
        .replace("LEFT", LEFT);
    let server: Vec<&str> = SERVER_PROGRAMS.into_iter().filter(|program| has(program)).collect();
    let scripts = [format!("{LEFT}{user}"), target];
    let lines = scripts_with(&folder, &stripped(&folder), scripts, [&["/usr/bin/ssh"], &server]);
    assert_eq!(lines.iter().filter(|line| *line == "status 0").count(), count, "{lines:#?}");
    for nothing in ["left: []", "left there: []"] {
        assert!(lines.iter().any(|line| line == nothing), "{lines:#?}");
    }
    let store = Store::open(&folder.join("scripts.iopj")).unwrap();
    assert_eq!(store.study().unwrap().target, "root@storage1:/dev/nvme0n1");
    let trials = store.trials().unwrap();
    // Over `loop` nothing polls.
    assert_eq!(trials.len(), 10);
    for trial in &trials {
        let verdict = &trial.outcome.measurement().unwrap().verdict;
        assert_ne!(verdict.kind, VerdictKind::Refuted, "{:?} {:?}", trial.settings, verdict.reasons);
    }
}

/// A new key in the folder: its private and its public half.
fn key(folder: &Path, name: &str) -> [String; 2] {
    let file = folder.join(name);
    let arguments = ["-q", "-t", "ed25519", "-N", "", "-f"];
    assert!(Command::new("ssh-keygen").args(arguments).arg(&file).status().unwrap().success());
    [file.clone(), file.with_extension("pub")].map(|file| std::fs::read_to_string(file).unwrap())
}

/// iopj without the tables of a debugger, which ssh would take minutes to copy in an emulated machine.
fn stripped(folder: &Path) -> PathBuf {
    let file = folder.join("iopj");
    let status = Command::new("strip").arg("-o").arg(&file).arg(crate::iopj_of_guests()).status();
    assert!(status.unwrap().success());
    file
}
