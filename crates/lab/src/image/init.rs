//! The guest's first process: a script for busybox's shell that prepares the system, runs the caller's script
//! and hands out what it left.
//!
//! It speaks to the host by lines on the console: [`UP`] when the caller's script starts, [`FAILED`] with
//! stage and cause when one of its own steps fails. Then it switches the machine off.

use super::modules::Load;

/// Starts the line that says that the guest is up.
pub(crate) const UP: &str = "lab: up";
/// Starts the line that says which stage failed and why: `lab: failed STAGE: CAUSE`.
pub(crate) const FAILED: &str = "lab: failed ";
/// The name of the virtio-serial port that takes the archive.
pub(crate) const OUT_PORT: &str = "org.iopj.out";
/// The archive's member that holds the script's exit status; the folder beside it is [`OUT_FOLDER`].
pub(crate) const EXIT_MEMBER: &str = "lab/exit";
/// The folder whose content is handed out.
pub(crate) const OUT_FOLDER: &str = "out";

/// The init script that loads these modules, which are in `/lab/modules` in this order.
pub(super) fn script(loads: &[Load], library_folders: &[String]) -> String {
    let insmods: String = loads.iter().map(insmod).collect();
    include_str!("init.sh")
        .replace("@UP@", UP)
        .replace("@FAILED@", FAILED.trim_end())
        .replace("@OUT_PORT@", OUT_PORT)
        .replace("@EXIT_MEMBER@", EXIT_MEMBER)
        .replace("@OUT_FOLDER@", OUT_FOLDER)
        .replace("@LIBRARIES@", &quoted(&library_folders.join(":")))
        .replace("@INSMODS@\n", &insmods)
}

/// The guest's path of a module.
pub(super) fn module_path(load: &Load) -> String {
    format!("/lab/modules/{}", load.path.rsplit('/').next().unwrap_or(&load.path))
}

fn insmod(load: &Load) -> String {
    let words: Vec<String> =
        std::iter::once(&module_path(load)).chain(&load.options).map(|word| quoted(word)).collect();
    format!("load {}\n", words.join(" "))
}

/// A word that the shell takes literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_in_the_script_is_filled() {
        let load =
            Load { path: "kernel/a/nvme.ko".into(), options: vec!["poll_queues=2".into(), "x=it's".into()] };
        let script = script(&[load], &["/lib/x".into(), "/lib64".into()]);
        assert!(!script.replace("$@", "").contains('@'), "{script}");
        assert!(script.contains("\nload '/lab/modules/nvme.ko' 'poll_queues=2' 'x=it'\\''s'\n"), "{script}");
        assert!(script.contains("LD_LIBRARY_PATH='/lib/x:/lib64'"), "{script}");
    }
}
