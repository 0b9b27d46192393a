//! Devices that a run may not have: mounted ones by any name, another one than was named, one in use, and a
//! wrong block size.

use crate::common::{
    LoopDevice, Undo, alone, folder, have_loop, have_mounts, iopj, mounted, refusal, says, tool, written,
};
use crate::live::Live;
use crate::{NOBODY, PLAIN, refused, refuses, succeeds};
use iopj_store::Store;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The line that asks to overwrite `node`.
fn destroy(node: &str) -> String {
    format!("run --target {node} --destroy-data {node} --rw randwrite {PLAIN} --store x.iopj")
}

/// Refuses to overwrite `node` even if a signature may go.
fn refused_to_write(folder: &Path, node: &str, parts: &[&str]) {
    refuses(folder, &destroy(node), parts);
    refuses(folder, &format!("{} --i-know", destroy(node)), parts);
}

#[test]
fn mounted_device_is_refused_by_its_node_and_by_a_symlink() {
    let Some(folder) = have_mounts().then(folder) else { return };
    let image = folder.join("image");
    written(&image, 8 << 20);
    tool(&format!("mkfs.ext4 -q -F {}", image.display()));
    let device = LoopDevice::new(&image, "");
    symlink(&device.path, folder.join("link")).unwrap();
    {
        let at = folder.join("mounted");
        let _mounted = mounted(&format!("-o ro {}", device.node()), &at);
        let cause = format!("{} is mounted on {}", device.name(), at.display());
        for node in [device.node(), "link"] {
            let thing = format!("`{node}` cannot be written: ");
            refused_to_write(&folder, node, &[&thing, &cause, "unmount it, or name another target"]);
        }
    }
    let parts = ["carries an ext2, ext3 or ext4 file system", "wipe it (`wipefs -a`), or say --i-know"];
    refuses(&folder, &destroy(device.node()), &parts);
}

#[test]
fn disk_with_a_mounted_partition_is_refused() {
    let Some(folder) = have_mounts().then(folder) else { return };
    let image = folder.join("image");
    written(&image, 8 << 20);
    // An MBR with one partition of type 83h: 8192 sectors from the 2048th.
    let mut table = [0; 66];
    table[..16].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 32, 0, 0]);
    table[64..].copy_from_slice(&[0x55, 0xaa]);
    File::options().write(true).open(&image).unwrap().write_all_at(&table, 446).unwrap();
    let device = LoopDevice::new(&image, "-P");
    // The kernel may not know the partition table.
    tool(&format!("partx --update --nr 1 {}", device.node()));
    let _deleted = Undo(format!("partx --delete --nr 1 {}", device.node()));
    let partition = format!("{}p1", device.node());
    let whole = format!("`{partition}` is a partition: name the whole device `{}`", device.node());
    refused_to_write(&folder, &partition, &[&whole]);
    tool(&format!("mkfs.ext4 -q {partition}"));
    let at = folder.join("mounted");
    let _mounted = mounted(&format!("-o ro {partition}"), &at);
    let cause = format!("{}p1 is mounted on {}", device.name(), at.display());
    for node in [device.node(), &partition] {
        refused_to_write(&folder, node, &[&format!("`{node}` cannot be written"), &cause, "unmount it"]);
    }
}

#[test]
fn device_to_destroy_is_the_target_itself() {
    let Some(folder) = have_loop().then(folder) else { return };
    let _alone = alone();
    let images = ["one", "other"].map(|name| folder.join(name));
    images.iter().for_each(|image| File::create(image).unwrap().set_len(4 << 20).unwrap());
    let [one, other] = images.each_ref().map(|image| LoopDevice::new(image, ""));
    let run = |more: &str| iopj(&folder, &format!("run {PLAIN} --store x.iopj {more}"));
    let parts =
        [&*format!("is not `{}`, which --destroy-data names", other.node()), "name the same device in both"];
    let line = format!("--rw randwrite --target {} --destroy-data {}", one.node(), other.node());
    refused(&mut run(&line), &folder, &parts);
    refused(
        &mut run(&format!("--rw write --destroy-data {}", one.node())),
        &folder,
        &["--destroy-data", "--target"],
    );
    let line = format!("--rw randread --target {0} --destroy-data {0}", one.node());
    let parts =
        [&*format!("--destroy-data names {}", one.node()), "the study writes nothing: leave the option out"];
    refused(&mut run(&line), &folder, &parts);
    let line = format!("--rw randwrite --target {}", one.node());
    refused(&mut run(&line), &folder, &["is not a file that iopj made", "--destroy-data"]);
    // Named twice, it is written, and the other one is not.
    let (text, _) =
        succeeds(&mut run(&format!("--rw randwrite --target {0} --destroy-data {0}", one.node())));
    assert!(text.contains("not preconditioned"), "{text}");
    let zero = |image: &Path| fs::read(image).unwrap().iter().all(|byte| *byte == 0);
    assert_eq!(images.each_ref().map(|image| zero(image)), [false, true]);
}

/// They took any content, even blocks never written, and their records did not say so.
#[test]
fn reads_are_preconditioned_where_the_device_may_be_overwritten() {
    let Some(folder) = have_loop().then(folder) else { return };
    let _alone = alone();
    let image = folder.join("image");
    File::create(&image).unwrap().set_len(4 << 20).unwrap();
    let device = LoopDevice::new(&image, "");
    let study = "name = \"reads\"\npaths = \"libaio/syscall/interrupt\"\nreplicates = 2\nprecondition = \
                 true\nmeters = false\n[[workload]]\nrw = \"randread\"\nios = 50\n";
    fs::write(folder.join("reads.toml"), study).unwrap();
    let run = |more: &str| iopj(&folder, &format!("run reads.toml --target {} {more}", device.node()));
    let why = "the study has `precondition = true`, which writes the whole target, and";
    refused(&mut run(""), &folder, &[why, "--destroy-data"]);
    succeeds(&mut run(&format!("--destroy-data {}", device.node())));
    assert!(fs::read(&image).unwrap().chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)));
    let store = Store::open(&folder.join("reads.iopj")).unwrap();
    let words = "preconditioned for reads: filled twice";
    for trial in store.trials().unwrap() {
        assert_eq!(trial.outcome.measurement().unwrap().preconditioning.as_deref(), Some(words));
    }
    // Resumed, the remedy was to leave out a --target that nobody had given.
    let said = refusal(&folder, "run --resume reads.iopj");
    assert!(said.contains("is not a file that iopj made: name it by --destroy-data again"), "{said}");
    // Reads leave it so: the second block needs no writing.
    let events = store.events().unwrap().into_iter().filter(|(_, kind, _)| kind == "preconditioned");
    assert_eq!(events.map(|event| event.2).collect::<Vec<_>>(), [words]);
    assert!(store.study().unwrap().warnings.is_empty(), "no block is left that was never written");
}

#[test]
fn block_size_is_a_multiple_of_the_logical_block() {
    let Some(folder) = have_loop().then(folder) else { return };
    let image = folder.join("image");
    written(&image, 4 << 20);
    for (sector, bs) in [(512, "1000"), (4096, "512")] {
        let device = LoopDevice::new(&image, &format!("--sector-size {sector}"));
        let cause =
            format!("bs {bs} is not a multiple of {}'s logical block of {sector} bytes", device.node());
        let run = format!("run --target {} --bs {bs} {PLAIN}", device.node());
        refuses(&folder, &run, &[&cause, "choose a multiple of it"]);
    }
}

#[test]
fn device_without_capacity_is_refused() {
    let Some(folder) = have_loop().then(folder) else { return };
    let image = folder.join("image");
    File::create(&image).unwrap().write_all_at(&[7; 512], 0).unwrap();
    let device = LoopDevice::new(&image, "");
    image_cut(&image, &device);
    let parts = [&*format!("`{}` is empty", device.node()), "give it a capacity"];
    refuses(&folder, &format!("run --target {} {PLAIN}", device.node()), &parts);
}

fn image_cut(image: &Path, device: &LoopDevice) {
    File::options().write(true).open(image).unwrap().set_len(0).unwrap();
    tool(&format!("losetup -c {}", device.node()));
}

/// Any user could keep root from every drive.
#[test]
fn a_lock_of_a_user_does_not_hold_root_off() {
    let Some(folder) = have_loop().then(folder) else { return };
    let _alone = alone();
    let image = folder.join("image");
    written(&image, 4 << 20);
    let device = LoopDevice::new(&image, "");
    let mut holder = Command::new("flock");
    holder.args([&format!("/sys/block/{}/stat", device.name()), "sh", "-c", "echo; read line"]);
    holder.current_dir("/").uid(NOBODY).gid(NOBODY).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let line = format!("run --target {} {PLAIN} --store x.iopj", device.node());
    succeeds(&mut iopj(&folder, &line));
    drop(holder.stdin.take());
    holder.wait().unwrap();
}

#[test]
fn a_drive_in_use_is_refused_or_waited_for() {
    let Some(folder) = have_loop().then(folder) else { return };
    let _alone = alone();
    let image = folder.join("image");
    written(&image, 4 << 20);
    let device = LoopDevice::new(&image, "");
    let held = File::open(format!("/sys/block/{}/stat", device.name())).unwrap();
    held.lock().unwrap();
    let own = fs::read_to_string("/proc/self/comm").unwrap();
    let (own, pid) = (own.trim_end(), std::process::id());
    let who = format!("`{}` is locked by the program `{own}` with process id {pid}", device.name());
    let run =
        |more: &str| iopj(&folder, &format!("run --target {} {PLAIN} --store x.iopj {more}", device.node()));
    let ends_with = |more: &str, words: &[&str]| {
        let output = run(more).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        says(&String::from_utf8(output.stderr).unwrap(), words);
    };
    ends_with("", &[&format!("iopj: {who}: use --wait to wait until it ends, or stop it\n")]);
    let wait = format!("{who}: waiting until it ends, at most 300ms\n");
    ends_with("--wait=300ms", &[&wait, &format!("iopj: {who} after a wait of 300ms: wait longer")]);
    let begun = || {
        let mut live = Live::start(run("--wait"));
        live.until(&format!("{who}: waiting until it ends, at most 10m"));
        live
    };
    let live = begun();
    live.interrupt();
    assert_eq!(live.end().0, Some(130));
    assert!(!folder.join("x.iopj").exists());
    let live = begun();
    drop(held);
    let (code, words) = live.end();
    assert_eq!(code, Some(0), "{words}");
    assert!(folder.join("x.iopj").exists());
}
