//! What was packed, used: installed and removed in bare Debian systems, unpacked on the oldest glibc, run
//! from the image, and started in an Arm guest.

use crate::bare::Bare;
use crate::dist::arch::{self, Arch};
use crate::dist::build::Tools;
use crate::dist::{Release, empty, libc};
use crate::tree;
use crate::workspace::Workspace;
use crate::{ffi, shell};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's releases in which packages are installed, used and removed.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];
/// The oldest release that its mirrors still have: glibc 2.31. That nothing needs more than 2.28 is checked
/// symbol by symbol when it is built.
const OLDEST: &str = "bullseye";
/// A small measurement.
const STUDY: &str = "\
name = \"packages\"
paths = [\"posix-sio/syscall/interrupt\", \"posix-aio/syscall/interrupt\", \"io_uring/syscall/interrupt\"]
size = \"4m\"
meters = \"none\"

[[workload]]
rw = \"randread\"
bs = \"4k\"
ios = 500
";

/// The packages are installed, used, and removed without a trace.
const INSTALL: &str = r#"
cd /tried
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install --no-install-recommends ./*.deb >/dev/null
iopj --version
test -e /usr/share/man/man1/iopj-run.1.gz
test -e /usr/share/bash-completion/completions/iopj
iopj run packages.toml --wait
iopj report packages.iopj | grep 'io_uring/syscall/interrupt'
head -c 1048576 /dev/urandom >data
sync data
cc -o shared /usr/share/doc/libiopj-dev/examples/read.c $(pkg-config --cflags --libs iopj)
ldd shared | grep libiopj.so.0
./shared io_uring/syscall/interrupt data 1000
static=$(pkg-config --static --libs iopj | sed 's/-liopj/-l:libiopj.a/')
cc -o static /usr/share/doc/libiopj-dev/examples/read.c $static
test -z "$(ldd static | grep libiopj)"
./static libaio/syscall/interrupt data 1000
library=$(dpkg -L iopj | grep libiopj_preload.so)
IOPJ_PRELOAD_STATS=$PWD/moved.json LD_PRELOAD=$library ./direct data
grep '"program":"direct","moved":{"posix-sio":{"calls":[1-9]' moved.json
test -z "$(dpkg -L iopj libiopj0 libiopj-dev | grep -e '^/etc' -e systemd -e /udev/)"
apt-get -qq purge iopj libiopj0 libiopj-dev >/dev/null
# What is mounted is not the system's own, and /run ends with it.
left=$(find / -xdev \( -path /run -o -path /tried \) -prune -o -name '*iopj*' -print)
test -z "$left" || { echo "left behind: $left"; exit 1; }
"#;

/// A tarball is unpacked and used where it lies.
const UNPACK: &str = r#"
cd /tried
tar --extract --file *.tar.gz
ldd --version | head -n 1
./iopj-*/bin/iopj --version
./iopj-*/bin/iopj run packages.toml --wait
head -c 1048576 /dev/urandom >data
sync data
library=$(echo iopj-*/lib/iopj/libiopj_preload.so)
IOPJ_PRELOAD_STATS=$PWD/moved.json LD_PRELOAD=$PWD/$library ./direct data
grep '"program":"direct","moved":{"posix-sio":{"calls":[1-9]' moved.json
"#;

/// How long a guest may take, in seconds.
const GUEST_LIMIT_S: u32 = 300;
/// Bytes of its disk.
const GUEST_DISK: u64 = 16 << 20;

/// That of this machine.
///
/// # Errors
/// It is none of those that are packed.
pub(crate) fn this_arch() -> Result<&'static Arch> {
    arch::ALL.iter().find(|arch| arch.rpm == std::env::consts::ARCH).context("no packages for this machine")
}

/// Installs, uses and removes the Debian packages; unpacks the tarball on the oldest glibc.
pub(crate) fn debian(workspace: &Workspace, release: &Release, epoch: u64) -> Result<()> {
    let arch = this_arch()?;
    let direct = workspace.target.join("dist/direct");
    let mut compile = Tools::new(workspace, epoch)?.for_old_glibc(arch);
    let source = workspace.root.join("xtask/src/dist/direct.c");
    shell::output(compile.args(["-O2", "-pthread", "-o"]).args([&direct, &source]))?;
    let packages = format!("_{}.deb", arch.debian);
    let mut failed = Vec::new();
    let mut in_bare = |name: &str, packages: &str, ending: &str, script: &str| {
        if let Err(error) = tried(workspace, release, (name, packages), (ending, &direct), script) {
            failed.push(format!("{name}: {error:#}"));
        }
    };
    for name in RELEASES {
        in_bare(name, "gcc,libc6-dev,pkgconf", &packages, INSTALL);
    }
    in_bare(OLDEST, "tar", &format!("{}.tar.gz", arch.gnu), UNPACK);
    if failed.is_empty() { Ok(()) } else { bail!(failed.join("; ")) }
}

/// Runs a script in a bare system that has the files of the release with this ending, and a program that does
/// direct I/O.
fn tried(
    workspace: &Workspace,
    release: &Release,
    (name, packages): (&str, &str),
    (ending, direct): (&str, &Path),
    script: &str,
) -> Result<()> {
    let bare = Bare::new(workspace, "dist/bare", name, packages)?;
    let folder = empty(bare.folder().join("tried"))?;
    fs::write(folder.join("packages.toml"), STUDY)?;
    fs::copy(direct, folder.join("direct"))?;
    let mut found = 0;
    for entry in fs::read_dir(&release.folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(ending) {
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
            found += 1;
        }
    }
    ensure!(found > 0, "the release has no file `*{ending}`");
    shell::step(&format!("use in a bare {name}"), &mut bare.shell(script))
}

/// Installs the RPM packages below a folder, verifies them, and removes them; without what they need of a
/// distribution, which is listed.
pub(crate) fn rpm(workspace: &Workspace, release: &Release) -> Result<()> {
    let root = empty(workspace.target.join("dist/rpm-root"))?;
    let rpm = |words: &[&str]| {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(&root).args(words);
        command
    };
    let ending = format!(".{}.rpm", this_arch()?.rpm);
    let mut packages: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&release.folder)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(&ending) {
            packages.push(path);
        }
    }
    let needs = shell::output(Command::new("rpm").args(["-qp", "--requires"]).args(&packages))?;
    ensure!(needs.contains("libc.so.6(GLIBC_2."), "the RPM packages do not say which glibc they need");
    ensure!(packages.len() == 3, "{} RPM packages", packages.len());
    shell::output(rpm(&["--install", "--nodeps"]).args(&packages))?;
    let program = root.join("usr/bin/iopj");
    print!("{}", shell::output(Command::new(&program).arg("--version"))?);
    shell::output(&mut rpm(&["--verify", "--nodeps", "iopj", "libiopj0", "libiopj-devel"]))?;
    shell::output(&mut rpm(&["--erase", "iopj", "libiopj0", "libiopj-devel"]))?;
    ensure!(!program.exists(), "rpm left the program behind");
    fs::remove_dir_all(&root).context("the root of the RPM packages")
}

/// Installs the program from its sources as `docs/install.md` says, but without optimization, and starts it.
pub(crate) fn cargo(workspace: &Workspace, release: &Release) -> Result<()> {
    let root = empty(workspace.target.join("dist/installed"))?;
    let mut install = workspace.cargo("install --locked --path crates/iopj --debug --root");
    install.arg(&root).arg("--target-dir").arg(workspace.target.join("dist/install"));
    shell::step("cargo install", install.env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    let program = root.join("bin/iopj");
    let said = shell::output(Command::new(&program).arg("--version"))?;
    ensure!(said.contains(&release.version), "the installed program says {said}");
    let script = shell::output(Command::new(&program).args(["completions", "bash"]))?;
    ensure!(script.contains("complete"), "the installed program has no completions: {script}");
    fs::remove_dir_all(&root).context("what cargo installed")
}

/// Unpacks the image as other programs do, and measures with it on a file.
pub(crate) fn image(workspace: &Workspace, release: &Release) -> Result<()> {
    let arch = this_arch()?;
    let (layout, _) = unpacked(workspace, release, arch, "image")?;
    let mut inspect = Command::new("skopeo");
    let name = format!("{}:iopj:{}", layout.display(), release.version);
    let said = shell::output(inspect.args(["inspect", &format!("oci:{name}")]))?;
    ensure!(said.contains("\"org.opencontainers.image.version\""), "skopeo sees no label: {said}");
    let bundle = empty(workspace.target.join("dist/bundle"))?;
    fs::remove_dir(&bundle)?;
    let mut unpack = Command::new("umoci");
    shell::output(unpack.args(["unpack", "--image", &name]).arg(&bundle))?;
    let data = empty(workspace.target.join("dist/data"))?;
    fs::write(data.join("packages.toml"), STUDY)?;
    shell::output(Command::new("chown").arg("65532:65532").arg(&data))?;
    let config = bundle.join("config.json");
    let configured = configured(&tree::read(&config)?, &data)?;
    fs::write(&config, configured).context("the configuration of the container")?;
    let mut run = Command::new("runc");
    run.current_dir(&bundle).args(["run", &format!("iopj-{}", std::process::id())]);
    shell::step("a measurement in a container", &mut run)?;
    [bundle, data].iter().try_for_each(fs::remove_dir_all).context("what the image was unpacked to")
}

/// The runtime's configuration as umoci has made it of the image, with the study as arguments, and a folder
/// of this machine at `/data`.
fn configured(config: &[u8], data: &Path) -> Result<String> {
    let mut config: Value = serde_json::from_slice(config)?;
    let process = &mut config["process"];
    let arguments = process["args"].as_array_mut().context("the image has no program to run")?;
    arguments.truncate(1);
    arguments.extend(["run", "packages.toml", "--wait"].map(Value::from));
    process["terminal"] = false.into();
    let mounts = config["mounts"].as_array_mut().context("the container has no mounts")?;
    mounts.push(json!({"destination": "/data", "source": data, "options": ["bind", "rw"]}));
    Ok(config.to_string())
}

/// The layout of an image, and the files of its layer.
fn unpacked(workspace: &Workspace, release: &Release, arch: &Arch, name: &str) -> Result<(PathBuf, PathBuf)> {
    let folder = empty(workspace.target.join("dist").join(name))?;
    let file = release.folder.join(format!("iopj-{}-{}.oci.tar", release.version, arch.gnu));
    let (layout, root) = (empty(folder.join("layout"))?, empty(folder.join("root"))?);
    let extract = |from: &Path, to: &Path| {
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--file").arg(from).arg("-C").arg(to);
        shell::output(&mut tar)
    };
    extract(&file, &layout)?;
    for entry in fs::read_dir(layout.join("blobs/sha256"))? {
        let path = entry?.path();
        if tree::read(&path)?.starts_with(&[0x1f, 0x8b]) {
            extract(&path, &root)?;
        }
    }
    Ok((layout, root))
}

/// Boots an Arm guest whose root is the image, with a first process that is made for it, and lets it measure.
pub(crate) fn guest(workspace: &Workspace, release: &Release, epoch: u64) -> Result<()> {
    let arch = arch::ALL.iter().find(|arch| arch.rpm == "aarch64").context("no packages for Arm")?;
    let (_, root) = unpacked(workspace, release, arch, "guest")?;
    let tools = Tools::new(workspace, epoch)?;
    let init = workspace.root.join("xtask/src/dist/init.c");
    // It needs no library.
    let mut compile = tools.compiler("aarch64-linux-musl");
    shell::output(compile.args(["-O2", "-static", "-o"]).arg(root.join("init")).arg(init))?;
    let source = workspace.root.join(ffi::CRATE);
    let library = workspace.target.join("dist/build").join(arch.rust).join("dist/ffi");
    let mut compile = tools.for_old_glibc(arch);
    compile.args(["-O2", "-o"]).arg(root.join("read")).arg(source.join("examples/read.c"));
    compile.arg("-I").arg(source.join("include")).arg(library.join(ffi::SONAME));
    shell::output(&mut compile)?;
    let libraries = root.join("lib").join(arch.gnu);
    fs::copy(library.join(ffi::SONAME), libraries.join(ffi::SONAME))?;
    // The library needs it, and the program of the image does not.
    let (unwinder, _) = libc::extracted(workspace, "libgcc-s1", arch)?;
    let unwinder = libc::folder_of("libgcc_s.so.1", &unwinder, arch)?.join("libgcc_s.so.1");
    fs::copy(&unwinder, libraries.join("libgcc_s.so.1")).with_context(|| unwinder.display().to_string())?;
    fs::write(root.join("packages.toml"), STUDY)?;
    for name in ["proc", "sys", "dev"] {
        fs::create_dir_all(root.join(name))?;
    }
    let kernel = kernel(workspace)?;
    let modules = kernel.with_file_name("lib/modules");
    let driver = modules.join(kernel_release(&kernel)?).join("kernel/drivers/block/virtio_blk.ko");
    fs::copy(&driver, root.join("virtio_blk.ko")).with_context(|| driver.display().to_string())?;
    let disk = root.with_extension("disk");
    fs::File::create(&disk)?.set_len(GUEST_DISK)?;
    let image = root.with_extension("cpio");
    let mut pack = Command::new("sh");
    pack.current_dir(&root).args(["-ec", "find . | cpio --quiet --create --format=newc >\"$1\"", "pack"]);
    shell::output(pack.arg(&image))?;
    let mut boot = Command::new("timeout");
    boot.args([&format!("{GUEST_LIMIT_S}"), "qemu-system-aarch64", "-M", "virt", "-cpu", "max"]);
    boot.args(["-m", "1024", "-nographic", "-no-reboot", "-nic", "none"]);
    boot.args(["-append", "console=ttyAMA0 quiet oops=panic panic=-1 rdinit=/init"]);
    boot.args(["-drive", &format!("file={},format=raw,if=virtio", disk.display())]);
    let said = shell::output(boot.arg("-kernel").arg(&kernel).arg("-initrd").arg(image))?;
    println!("{said}");
    ensure!(said.contains("guest: all commands ended well"), "the guest did not end well");
    fs::remove_dir_all(workspace.target.join("dist/guest")).context("the guest's root")
}

/// A kernel for Arm, which the lab fetches.
fn kernel(workspace: &Workspace) -> Result<PathBuf> {
    let program = workspace.target.join("dist/build").join(this_arch()?.rust).join("dist/iopj");
    let words = ["lab", "kernels", "6.18", "--arch", "aarch64"];
    let said = shell::output(Command::new(program).args(words))?;
    let image = said.lines().next_back().and_then(|line| line.split_once(": "));
    Ok(PathBuf::from(image.with_context(|| format!("the lab names no kernel: {said}"))?.1))
}

/// The release of a kernel, after which the lab names the folder that it keeps it in.
fn kernel_release(image: &Path) -> Result<&std::ffi::OsStr> {
    image.parent().and_then(Path::file_name).context("the lab's kernel is in no folder")
}
