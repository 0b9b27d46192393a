//! Links between pages: each as the book has it, whose pages lie elsewhere than the repository's files.

/// Documents above `docs/` that are pages of the book.
pub(super) const ABOVE: [&str; 4] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "DEPENDENCIES.md", "CHANGELOG.md"];
/// The first page, which takes the place of the repository's own.
pub(super) const START: &str = "README.md";

/// The text of the file `document` of the repository with its links turned into those of the book. A link to
/// a file that is no page is replaced by its text.
pub(super) fn turned(document: &str, text: &str, is_page: &dyn Fn(&str) -> bool) -> String {
    let mut result = String::new();
    for (number, part) in text.split("```").enumerate() {
        if number > 0 {
            result.push_str("```");
        }
        match number % 2 {
            0 => turn(document, part, is_page, &mut result),
            _ => result.push_str(part),
        }
    }
    result
}

fn turn(document: &str, text: &str, is_page: &dyn Fn(&str) -> bool, result: &mut String) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, behind)) = after.split_once(')') else { break };
        result.push_str(before);
        rest = behind;
        match address(document, target, is_page) {
            Some(address) => result.push_str(&format!("]({address})")),
            None => match result.rfind('[') {
                Some(at) => drop(result.remove(at)),
                None => result.push_str(&format!("]({target})")),
            },
        }
    }
    result.push_str(rest);
}

/// Where a link leads in the book; none to what is not in it.
fn address(document: &str, target: &str, is_page: &dyn Fn(&str) -> bool) -> Option<String> {
    if target.starts_with('#') || target.contains("://") || target.starts_with("mailto:") {
        return Some(target.to_owned());
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, at)| (file, Some(at)));
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let file = joined(folder, file);
    let page = page_of(&file).filter(|page| is_page(page))?;
    let anchor = anchor.filter(|_| file != START).map(|at| format!("#{at}")).unwrap_or_default();
    let depth = page_of(document).unwrap_or_default().matches('/').count();
    // mdBook renames this page, and links by its old name would lead nowhere.
    let page = if page == START { "index.md" } else { &page };
    Some(format!("{}{page}{anchor}", "../".repeat(depth)))
}

/// Where the book has a file of the repository.
pub(super) fn page_of(file: &str) -> Option<String> {
    match file.strip_prefix("docs/") {
        Some(page) => Some(page.to_owned()),
        None => (ABOVE.contains(&file) || file == START).then(|| file.to_owned()),
    }
}

/// A path below a folder of the repository, without `.` and `..`.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(document: &str, text: &str) -> String {
        turned(document, text, &|page| !page.contains("gone"))
    }

    #[test]
    fn links_lead_to_pages_from_any_folder() {
        assert_eq!(
            text("docs/a.md", "[x](lab.md#k) [y](../ARCHITECTURE.md)"),
            "[x](lab.md#k) [y](ARCHITECTURE.md)"
        );
        assert_eq!(text("docs/guides/a.md", "[x](../lab.md)"), "[x](../lab.md)");
        assert_eq!(text("CHANGELOG.md", "[x](docs/lab.md#a)"), "[x](lab.md#a)");
        assert_eq!(text("CONTRIBUTING.md", "[x](README.md#two-commands)"), "[x](index.md)");
        assert_eq!(text("docs/a.md", "[x](#here) [y](https://a.b/c)"), "[x](#here) [y](https://a.b/c)");
    }

    #[test]
    fn a_link_that_leaves_the_book_is_text() {
        assert_eq!(
            text("docs/a.md", "see [the\nC header](../crates/ffi/README.md), [b](c.md)"),
            "see the\nC header, [b](c.md)"
        );
        assert_eq!(text("docs/a.md", "[x](gone.md)"), "x");
    }

    #[test]
    fn blocks_of_code_stay_as_they_are() {
        assert_eq!(text("docs/a.md", "```\n[x](gone.md)\n```\n[x](gone.md)"), "```\n[x](gone.md)\n```\nx");
    }
}
