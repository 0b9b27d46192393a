//! The manifests of every shape, against Kubernetes' published schema.

use crate::campaigns::study;
use crate::common::{folder, have, refusal, run, says};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The validator, where the tests were given one.
fn validator() -> Option<PathBuf> {
    let program = std::env::var_os("IOPJ_KUBERNETES_VALIDATE").map(PathBuf::from);
    let program = program.filter(|program| program.exists());
    have(program.is_some(), "kubernetes-validate (PyPI), named by IOPJ_KUBERNETES_VALIDATE");
    program
}

/// Whether the objects of manifests are valid by the published schema, and what is said of them; `None`
/// without a validator, which knows no lists: it gets each object by itself.
pub(crate) fn is_valid(manifests: &[PathBuf]) -> Option<(bool, String)> {
    let validator = validator()?;
    let mut objects = Vec::new();
    for manifest in manifests {
        let all: Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
        for (number, object) in all["items"].as_array().unwrap().iter().enumerate() {
            let file = manifest.with_extension(format!("{number}.json"));
            fs::write(&file, object.to_string()).unwrap();
            objects.push(file);
        }
    }
    let output = Command::new(validator).args(["--strict", "-k", "1.31.0"]).args(objects).output();
    let output = output.unwrap();
    let words = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Some((output.status.success(), words.concat()))
}

#[test]
fn every_shape_is_valid_and_asks_for_no_more_than_its_study_needs() {
    let folder = folder();
    let settings = study(1, "1s").replace("\n[[workload]]", "\n[settings]\nnomerges = 2\n\n[[workload]]");
    let profile = study(1, "1s").replace("replicates", "profile = true\nreplicates");
    let writes = study(1, "1s").replace("randread", "randwrite");
    for (name, text) in
        [("plain", &study(1, "1s")), ("settings", &settings), ("profile", &profile), ("writes", &writes)]
    {
        fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    fs::write(folder.join("serials"), "S1\n").unwrap();
    let device = "--target /dev/nvme0n1 --serials serials --destroy-data";
    let shapes = [
        ("plain", "--nodes 3 --node-selector disk=nvme --node-selector zone=a", r#""runAsNonRoot": true"#),
        ("plain", "--daemonset --namespace bench", r#""kind": "DaemonSet""#),
        ("plain", "--nodes 2 --target /srv/data", r#""type": "File""#),
        ("plain", "--nodes 2 --target /dev/ng0n1", r#""type": "CharDevice""#),
        ("settings", "--daemonset", r#""path": "/sys""#),
        ("profile", "--nodes 2 --hold 5m", r#""PERFMON""#),
        ("writes", &format!("--nodes 2 {device}"), r#""privileged": true"#),
    ];
    let mut manifests = Vec::new();
    for (number, (study, options, part)) in shapes.iter().enumerate() {
        let line = format!(
            "fleet submit {study}.toml --kubernetes --manifest-only --image r.example/iopj:1 --dir c{number} \
             {options}"
        );
        let (code, _, words) = run(&folder, &line);
        assert_eq!(code, 0, "{line}: {words}");
        let manifest = folder.join(format!("c{number}/manifest.json"));
        says(&fs::read_to_string(&manifest).unwrap(), &[part, r#""automountServiceAccountToken": false"#]);
        manifests.push(manifest);
    }
    let Some((all_are, words)) = is_valid(&manifests) else { return };
    assert!(all_are, "{words}");
    // It finds what is wrong.
    let wrong =
        fs::read_to_string(&manifests[0]).unwrap().replace("\"completions\": 3", "\"completions\": \"3\"");
    fs::write(&manifests[0], wrong).unwrap();
    assert!(is_valid(&manifests[..1]).is_some_and(|(is_valid, _)| !is_valid));
}

#[test]
fn what_kubernetes_cannot_be_asked_is_refused() {
    let folder = folder();
    fs::write(folder.join("s.toml"), study(1, "1s")).unwrap();
    let words = refusal(&folder, "fleet submit s.toml --kubernetes --manifest-only");
    says(&words, &["on how many nodes", "--daemonset"]);
    let words = refusal(&folder, "fleet submit s.toml --kubernetes --nodes 1 --node-selector disk --dir d");
    says(&words, &["`disk` is no label: write KEY=VALUE"]);
    for (options, part) in [
        ("--image=-x", "--image: `-x` is no name of an image"),
        ("--scratch here", "--scratch: a pod mounts `here` of its node"),
        ("--target /dev/../sda", "--target: a pod mounts `/dev/../sda` of its node"),
    ] {
        let words =
            refusal(&folder, &format!("fleet submit s.toml --kubernetes --nodes 1 --dir e {options}"));
        says(&words, &[part]);
    }
    says(&refusal(&folder, "fleet submit s.toml --nodes 1"), &["--ssh", "--slurm", "--kubernetes"]);
    fs::write(folder.join("f.toml"), include_str!("../../../../studies/fabric.toml")).unwrap();
    says(&refusal(&folder, "fleet submit f.toml --ssh n1"), &["[fabric]"]);
}

/// The manifest in the eyes of Python's JSON and of PyYAML.
const READERS: &str = r"
import json, yaml
text = open('c/manifest.json', encoding='ascii').read()
for one in [json.loads(text)] + list(yaml.safe_load_all(text)):
    items = one['items']
    assert [item['kind'] for item in items] == ['ConfigMap', 'Job'], items
    assert json.loads(items[0]['data']['job.json'])['study'] == open('s.toml', newline='').read()
";

/// A study's comment with a line separator made objects of its own, a privileged pod among them.
#[test]
fn a_strangers_study_is_one_text_to_other_readers() {
    let folder = folder();
    let hostile = "# \u{85}kind: Pod\u{2028}kind: Pod\u{2029}\u{feff}\n# ---\n# &a *a \
                   !!python/object:os.system \"quoted\" 'too' \\ # \u{2028}---\u{2028}kind: List\n\
                   # \u{1f980}\n";
    let study = hostile.to_owned() + &study(1, "1s");
    fs::write(folder.join("s.toml"), &study).unwrap();
    let line = "fleet submit s.toml --kubernetes --manifest-only --nodes 1 --image i --dir c";
    let (code, _, words) = run(&folder, line);
    assert_eq!(code, 0, "{words}");
    fs::write(folder.join("readers.py"), READERS).unwrap();
    // The validator reads YAML by PyYAML, which stands beside it.
    let Some(validator) = validator() else { return };
    let python = validator.with_file_name("python");
    let output = Command::new(python).arg("readers.py").current_dir(&*folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
