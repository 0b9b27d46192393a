//! Tests of reading apt sources: both styles, the choice among foreign sources, and arbitrary text.

use super::*;
use proptest::prelude::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn debian(text: &str) -> Option<Mirrors> {
    let names = suite_names(Distribution::Debian, "ID=debian\nVERSION_CODENAME=bookworm\n");
    let sources = if text.contains("Types:") { parse_deb822(text) } else { parse_lines(text) };
    choose(Distribution::Debian, &names, &sources)
}

#[test]
fn stanzas_are_read_with_their_keys_and_without_what_is_switched_off() {
    let text = "\
# a comment\nTypes: deb deb-src\nURIs: http://a.example/debian\n  http://b.example/debian\n\
Suites: bookworm bookworm-updates\n\
# inside\nComponents: main contrib\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\
Enabled: no\nTypes: deb\nURIs: http://off.example\nSuites: bookworm\nComponents: main\n\n\
Types: deb-src\nURIs: http://src.example\nSuites: bookworm\nComponents: main\n\n\
types: deb\nuris: http://c.example\nsuites: x/\n\
Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINB\n \
-----END PGP PUBLIC KEY BLOCK-----\n";
    let sources = parse_deb822(text);
    assert_eq!(sources.len(), 2);
    assert_eq!(sources[0].uris, words("http://a.example/debian http://b.example/debian"));
    assert_eq!(sources[0].suites, words("bookworm bookworm-updates"));
    assert_eq!(sources[0].components, words("main contrib"));
    assert_eq!(sources[0].signed_by.as_deref(), Some("/usr/share/keyrings/debian-archive-keyring.gpg"));
    assert_eq!(
        sources[1].signed_by.as_deref(),
        Some(
            "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINB\n \
-----END PGP PUBLIC KEY BLOCK-----"
        )
    );
}

#[test]
fn lines_are_read_with_their_options() {
    let text = "\
# deb http://no.example x main\n\
deb http://a.example/debian bookworm main contrib # ours\n\
deb-src http://a.example/debian bookworm main\n\
deb\t[arch=amd64 signed-by=/k/one.gpg,/k/two.gpg] https://b.example stable main\n\
deb [ trusted=yes ] file:/srv ./\n\
debris http://c.example x main\n\
deb [ broken http://d.example x main\n";
    let sources = parse_lines(text);
    assert_eq!(sources.len(), 3);
    assert_eq!(
        sources[0],
        AptSource {
            uris: words("http://a.example/debian"),
            suites: words("bookworm"),
            components: words("main contrib"),
            signed_by: None
        }
    );
    assert_eq!(sources[1].signed_by.as_deref(), Some("/k/one.gpg /k/two.gpg"));
    assert_eq!((sources[2].suites.clone(), sources[2].signed_by.clone()), (words("./"), None));
}

#[test]
fn the_archive_is_chosen_among_foreign_sources_with_its_words() {
    let mirrors = debian(
        "deb [signed-by=/k/browser.gpg] https://browser.example stable main\n\
         deb cdrom:[Debian_12]/ bookworm main\n\
         deb [signed-by=/k/prod.gpg] https://vendor.example/debian/12/prod bookworm main\n\
         deb [signed-by=/k/mine.gpg] http://mirror.example/debian bookworm main\n\
         deb [signed-by=/k/mine.gpg] http://mirror.example/debian bookworm-updates main\n\
         deb [signed-by=/k/mine.gpg] http://mirror.example/debian-security bookworm-security main\n",
    )
    .unwrap();
    assert_eq!(mirrors.main.uris, words("http://mirror.example/debian"));
    assert_eq!(mirrors.main.signed_by, "/k/mine.gpg");
    let security: Vec<_> = mirrors.security.iter().map(|mirror| mirror.uris.join(" ")).collect();
    assert_eq!(security, ["http://mirror.example/debian-security"]);
}

#[test]
fn one_line_of_sources_is_enough_to_find_the_security_archive() {
    for text in [
        "deb [signed-by=/k/a.gpg] http://mirror.example/debian bookworm main\n",
        "deb [signed-by=/k/a.gpg] http://mirror.example/debian/ bookworm main\n",
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\nSigned-By: \
         /k/a.gpg\n",
    ] {
        let [security] = &debian(text).unwrap().security[..] else { panic!("{text}") };
        assert_eq!(security.uris[0].trim_end_matches('/'), "http://mirror.example/debian-security", "{text}");
        assert_eq!(security.signed_by, "/k/a.gpg");
    }
    let both = debian(
        "deb [signed-by=/k/a.gpg] http://mirror.example/debian bookworm main\n\
         deb [signed-by=/k/s.gpg] http://security.example bookworm-security main\n",
    )
    .unwrap();
    let found: Vec<_> =
        both.security.iter().map(|one| (one.uris[0].as_str(), one.signed_by.as_str())).collect();
    assert_eq!(
        found,
        [("http://security.example", "/k/s.gpg"), ("http://mirror.example/debian-security", "/k/a.gpg")]
    );
}

#[test]
fn the_security_archive_lies_beside_whatever_is_called_debian() {
    for (uri, wanted) in [
        ("http://m.example/debian", Some("http://m.example/debian-security")),
        ("https://u:p@m.example/a/debian/", Some("https://u:p@m.example/a/debian-security/")),
        (
            "http://m.example/archive/debian/20260101T000000Z",
            Some("http://m.example/archive/debian-security/20260101T000000Z"),
        ),
        ("file:/srv/debian", Some("file:/srv/debian-security")),
        ("http://debian/debian", Some("http://debian/debian-security")),
        ("http://debian/", None),
        ("http://m.example/packages", None),
        ("http://m.example/debian-stable", None),
    ] {
        assert_eq!(beside(uri).as_deref(), wanted, "{uri}");
    }
}

#[test]
fn the_archive_keyring_is_the_strongest_sign() {
    let stanza = |uri: &str, suites: &str, key: &str| {
        format!("Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\nSigned-By: {key}\n\n")
    };
    let text = stanza("http://other.example", "bookworm bookworm-updates", "/k/other.gpg")
        + &stanza("mirror+file:/etc/apt/mirrors/debian.list", "bookworm", "/k/debian-archive-keyring.gpg");
    let mirrors = debian(&text).unwrap();
    assert_eq!(mirrors.main.uris, words("mirror+file:/etc/apt/mirrors/debian.list"));
    assert_eq!(mirrors.security, []);
    assert_eq!(debian("deb http://a.example trixie main\n"), None);
}

#[test]
fn derivatives_are_counted_to_what_they_are_like() {
    assert_eq!(distribution("NAME=\"X\"\nID=debian\n"), Some(Distribution::Debian));
    assert_eq!(distribution("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"), Some(Distribution::Ubuntu));
    assert_eq!(distribution("ID=\"ubuntu\"\nID_LIKE=debian\n"), Some(Distribution::Ubuntu));
    assert_eq!(distribution("ID=fedora\n"), None);
    assert_eq!(
        suite_names(Distribution::Ubuntu, "VERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble\n"),
        words("noble wilma devel")
    );
}

#[test]
fn both_styles_are_read_from_the_folder_and_another_distribution_is_refused() {
    let etc = tempfile::tempdir().unwrap();
    let message = mirrors(etc.path()).unwrap_err().to_string();
    assert!(message.contains("neither Debian nor Ubuntu") && message.contains("--kernel IMAGE"), "{message}");

    fs::create_dir_all(etc.path().join("apt/sources.list.d")).unwrap();
    fs::write(etc.path().join("os-release"), "ID=ubuntu\nVERSION_CODENAME=noble\n").unwrap();
    assert!(mirrors(etc.path()).unwrap_err().to_string().contains("names no source"));

    fs::write(etc.path().join("apt/sources.list.d/old.list.off"), "deb http://no.example noble main\n")
        .unwrap();
    fs::write(
        etc.path().join("apt/sources.list.d/ubuntu.sources"),
        "Types: deb\nURIs: http://u.example/ubuntu/\nSuites: noble noble-updates\nComponents: main \
         universe\nSigned-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg\n",
    )
    .unwrap();
    fs::write(etc.path().join("apt/sources.list"), "deb [signed-by=/k/v.gpg] http://v.example noble main\n")
        .unwrap();
    let found = mirrors(etc.path()).unwrap();
    assert_eq!(
        (found.distribution, found.main.uris),
        (Distribution::Ubuntu, words("http://u.example/ubuntu/"))
    );
}

/// A word as sources hold them: no white space, no comment, no bracket.
fn word() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9:/._+-]{0,20}"
}

proptest! {
    #[test]
    fn one_source_reads_the_same_in_both_styles(
        uri in word(),
        suite in word(),
        components in prop::collection::vec(word(), 0..4),
        key in prop::option::of(word()),
    ) {
        let options = key.as_ref().map_or_else(String::new, |key| format!("[arch=amd64 signed-by={key}] "));
        let line = format!("deb {options}{uri} {suite} {}", components.join(" "));
        let field = key.as_ref().map_or_else(String::new, |key| format!("Signed-By: {key}\n"));
        let components_field = components.join(" ");
        let stanza =
            format!("Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: {components_field}\n{field}");
        let wanted = AptSource { uris: vec![uri], suites: vec![suite], components, signed_by: key };
        prop_assert_eq!(parse_lines(&line), vec![wanted.clone()]);
        prop_assert_eq!(parse_deb822(&stanza), vec![wanted]);
    }

    #[test]
    fn whatever_text_comes_is_read_without_harm(text in "(\\PC|[\n\t:#\\[\\]])*") {
        let names = words("bookworm");
        for sources in [parse_lines(&text), parse_deb822(&text)] {
            prop_assert!(sources.iter().all(|source| !source.uris.is_empty() && !source.suites.is_empty()));
            choose(Distribution::Debian, &names, &sources);
        }
    }
}
