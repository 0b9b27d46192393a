//! Pages and figures: no element, attribute or script that iopj does not write, whatever a store's texts say.

use crate::{study, texts};
use html5gum::{Token, Tokenizer};
use iopj_analysis::Admission;
use iopj_record::{Outcome, StudyRecord, Trial, Unavailable};
use iopj_report::html;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What a document is made of: elements, their attributes, and the texts of what links, styles and scripts.
#[derive(Default, PartialEq, Eq)]
struct Made {
    names: BTreeSet<String>,
    active: BTreeSet<String>,
}

/// What harmless texts make.
static OURS: LazyLock<Made> = LazyLock::new(|| {
    let harmless = ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned);
    let mut all = Made::default();
    documents(&harmless).iter().for_each(|document| all.add(document));
    all
});

/// Attributes that lead elsewhere or run something.
const ACTIVE: [&str; 6] = ["href", "src", "action", "http-equiv", "content", "xlink:href"];

impl Made {
    fn add(&mut self, document: &str) {
        let mut is_script = false;
        for token in Tokenizer::new(document) {
            let Ok(token) = token;
            match token {
                Token::StartTag(tag) => {
                    let name = lossy(&tag.name);
                    is_script = name == "script" || name == "style";
                    for (attribute, value) in &tag.attributes {
                        let (attribute, value) = (lossy(attribute), lossy(value));
                        if ACTIVE.contains(&&*attribute) && !value.starts_with('#') {
                            self.active.insert(format!("{attribute}={value}"));
                        }
                        self.names.insert(format!("{name} {attribute}"));
                    }
                    self.names.insert(name);
                }
                Token::EndTag(_) => is_script = false,
                Token::String(text) if is_script => {
                    let text = lossy(&text);
                    // The page's records are data.
                    if serde_json::from_str::<serde_json::Value>(&text).is_err() {
                        self.active.insert(text);
                    }
                }
                _ => {}
            }
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The page and the figures of a study with these texts.
fn documents(texts: &[String; 7]) -> Vec<String> {
    let [name, warning, value, setting, reason, fact, error] = texts;
    let mut trials = study::trials();
    for trial in &mut trials {
        trial.settings = [("nomerges".to_owned(), value.clone()), (setting.clone(), "1".to_owned())].into();
        if let Outcome::Failed(why) = &mut trial.outcome {
            why.clone_from(error);
        }
        if let Some(measurement) = trial.outcome.measurement_mut() {
            measurement.verdict.reasons.push(reason.clone());
        }
    }
    let unavailable = Unavailable { path: trials[0].path, reason: reason.clone(), remedy: warning.clone() };
    let study = StudyRecord {
        name: name.clone(),
        warnings: vec![warning.clone()],
        target: value.clone(),
        unavailable: vec![unavailable],
        provenance: [("kernel".to_owned(), fact.clone()), (fact.clone(), value.clone())].into(),
        ..study::study()
    };
    drawn(&study, &trials)
}

fn drawn(study: &StudyRecord, trials: &[Trial]) -> Vec<String> {
    let question = Admission::default();
    let mut all = vec![html::page(study, trials, &[], question)];
    let figures = html::figures(study, trials, &[], question);
    all.extend(figures.svg().into_iter().map(|(_, svg)| svg));
    all
}

/// Seven texts.
pub(crate) fn run(input: &[u8]) {
    let documents = documents(&texts(input));
    let mut made = Made::default();
    for document in &documents {
        made.add(document);
        // What XML 1.0 has no form for, no reader of an SVG takes.
        let is_char = |c: char| c >= ' ' && c != '\u{fffe}' && c != '\u{ffff}' || "\t\n\r".contains(c);
        assert!(document.chars().all(is_char), "a character that XML has no form for");
    }
    let names: Vec<&String> = made.names.difference(&OURS.names).collect();
    assert!(names.is_empty(), "not ours: {names:?}");
    let active: Vec<&String> = made.active.difference(&OURS.active).collect();
    assert!(active.is_empty(), "not ours: {active:?}");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let all = |text: &str| [text; 7].join("\0").into_bytes();
    vec![
        all("a"),
        all("</script><script>alert(1)</script>"),
        all("\"><img src=x onerror=alert(1)>"),
        all("' onload='x"),
        all("<!--"),
        all("]]><svg onload=x>&#x3c;script&#x3e;"),
        all("\u{202e}\u{1b}[2J\u{1}\u{fffe}"),
        all("javascript:x"),
    ]
}
