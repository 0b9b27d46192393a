//! The plan of a campaign, from the options of `iopj fleet submit`.

use super::refusals;
use crate::args::SubmitArgs;
use anyhow::Context;
use iopj_core::files::read_whole_text;
use iopj_fleet::campaign::{By, ByKubernetes, BySlurm, BySsh, Plan};
use iopj_fleet::job::{FORMAT, Job};
use iopj_fleet::{hosts, serials, slurm};
use iopj_study::Study;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// The folder of stores on the nodes of a Kubernetes cluster.
const NODES_FOLDER: &str = "/var/lib/iopj";

/// The plan, its study, and the campaign's folder.
pub(super) fn of(args: &SubmitArgs) -> anyhow::Result<(Plan, Study, PathBuf)> {
    let (study, text) = refusals::study(&args.study)?;
    study.check_allowed(args.allow.get())?;
    let serials = args.serials.as_deref().map(listed).transpose()?;
    if serials.is_none() && refusals::writes(&study)? {
        anyhow::bail!(
            "`{}` writes: list the serial numbers of the drives that may be written, and name the list by \
             --serials",
            args.study.display()
        );
    }
    let folder = args.dir.clone().unwrap_or_else(|| format!("{}.fleet", study.name).into());
    let folder = std::path::absolute(&folder).with_context(|| folder.display().to_string())?;
    let ms = |time: std::time::Duration| time.as_millis() as u64;
    let mut job = Job {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        campaign: id(&study.name)?,
        study: text,
        target: args.target.clone(),
        serials,
        destroy_data: args.destroy_data,
        allow: args.allow.get(),
        wait_ms: args.wait.map(ms),
        leases: None,
        scratch: None,
        hold_ms: args.kubernetes.then(|| ms(args.by_kubernetes.hold)),
    };
    let by = match &args.ssh {
        Some(hosts) => By::Ssh(BySsh {
            hosts: hosts::parse(hosts)?,
            parallel: args.over_ssh.parallel.into(),
            command: args.command.clone(),
            push: args.over_ssh.push,
            folder: args.scratch.clone(),
        }),
        None if args.slurm => {
            job.leases = Some(folder.join("drives"));
            job.scratch.clone_from(&args.scratch);
            By::Slurm(by_slurm(args)?)
        }
        None => By::Kubernetes(by_kubernetes(args, &mut job)?),
    };
    Ok((Plan { format: FORMAT, job, by }, study, folder))
}

/// The longest list of serial numbers.
const LONGEST_LIST: u64 = 16 << 20;

fn listed(file: &Path) -> anyhow::Result<Vec<String>> {
    let name = file.display().to_string();
    let text = read_whole_text(file, LONGEST_LIST)
        .with_context(|| format!("--serials: `{name}` cannot be read: name a list of serial numbers"))?;
    Ok(serials::parse(&text, &name)?)
}

/// The name of a campaign on its hosts: the study's with random digits, plain for shells and Kubernetes.
fn id(name: &str) -> anyhow::Result<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).take(30).collect();
    let mut bytes = [0; 4];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    random.context("/dev/urandom cannot be read")?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}-{digits}", name.trim_matches('-')).trim_start_matches('-').to_owned())
}

fn by_slurm(args: &SubmitArgs) -> anyhow::Result<BySlurm> {
    let of = &args.by_slurm;
    let nodelist = of.nodelist.as_deref().map(slurm::nodes_of).transpose()?.unwrap_or_default();
    if nodelist.is_empty() && args.nodes.is_none() {
        anyhow::bail!("--slurm runs on how many nodes? say --nodes N, or name them by --nodelist");
    }
    let option = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("--{name}={value}"));
    let options = [
        option("constraint", &of.constraint),
        option("gres", &of.gres),
        option("partition", &of.partition),
        option("time", &of.time),
        option("account", &of.account),
    ];
    Ok(BySlurm {
        nodes: args.nodes,
        nodelist,
        options: options.into_iter().flatten().collect(),
        command: args.command.clone(),
        arrays: Vec::new(),
    })
}

fn by_kubernetes(args: &SubmitArgs, job: &mut Job) -> anyhow::Result<ByKubernetes> {
    let of = &args.by_kubernetes;
    if args.nodes.is_none() && !of.daemonset {
        anyhow::bail!("--kubernetes runs on how many nodes? say --nodes N, or --daemonset for all of them");
    }
    if let Some(image) = of.image.as_deref().filter(|image| !is_image(image)) {
        anyhow::bail!(
            "--image: `{}` is no name of an image: name one such as `iopj:1`",
            image.escape_debug()
        );
    }
    for (option, path) in [("--scratch", &args.scratch), ("--target", &args.target)] {
        let is_whole = |path: &&PathBuf| {
            path.is_absolute() && path.components().all(|part| part != Component::ParentDir)
        };
        if let Some(path) = path.as_ref().filter(|path| !is_whole(path)) {
            anyhow::bail!(
                "{option}: a pod mounts `{}` of its node: name the whole path, from `/` on, without `..`",
                path.display()
            );
        }
    }
    let folder = args.scratch.clone().unwrap_or_else(|| NODES_FOLDER.into());
    job.leases = Some(folder.join("drives"));
    Ok(ByKubernetes { namespace: of.namespace.clone(), folder, nodes: args.nodes })
}

/// Whether a text has the form of an image's name: letters, digits and a few marks, a letter or digit first.
fn is_image(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "./:@_-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_as_registries_name_them() {
        for image in ["iopj", "iopj:1", "registry.example:5000/a/iopj@sha256:00ff", "0/a_b:v1.2-rc"] {
            assert!(is_image(image), "{image}");
        }
        for text in ["", "-x", "a b", "a\nb", ":1", "/a", "ä"] {
            assert!(!is_image(text), "{text}");
        }
    }

    #[test]
    fn an_id_is_plain_whatever_the_study_is_called() {
        let id = id("Über den Dächern v1.2 und noch viel weiter").unwrap();
        assert!(id.starts_with("ber-den-d-chern-v1-2-und-noch-"), "{id}");
        assert!(id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        assert!(super::id("...").unwrap().len() == 8);
    }
}
