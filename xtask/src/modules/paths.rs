//! The paths in a piece of code. They are read from its tokens, so those in a macro's arguments count too.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::iter::Peekable;
use syn::UseTree;

/// What a piece of code names.
#[derive(Default)]
pub(super) struct Found {
    /// Every path, including single names and the paths of imports.
    pub(super) paths: Vec<Vec<String>>,
    /// Each import: the name it has here, and its path.
    pub(super) imports: Vec<(String, Vec<String>)>,
    /// The paths before `::*`.
    pub(super) globs: Vec<Vec<String>>,
}

/// The paths in `code`, except in parts that are compiled only for tests.
pub(super) fn paths(code: TokenStream) -> Found {
    let mut found = Found::default();
    read(code, &mut found);
    found
}

/// Whether an attribute, given as the text of its tokens, marks an item that is compiled only for tests.
pub(super) fn is_test_attribute(text: &str) -> bool {
    let text: String = text.split_whitespace().collect();
    let condition = text.trim_start_matches("#[").trim_start_matches('[');
    condition.starts_with("cfg(test)")
        || condition.starts_with("cfg(all(test,")
        || condition.starts_with("test]")
}

fn read(code: TokenStream, found: &mut Found) {
    let mut tokens = code.into_iter().peekable();
    // A name after `.` or `'` is a field's, a method's or a lifetime's.
    let mut is_path = true;
    while let Some(token) = tokens.next() {
        match token {
            // In a type, `use<'a>` imports nothing.
            TokenTree::Ident(word)
                if word == "use" && !tokens.peek().is_some_and(|next| is_punct(next, '<')) =>
            {
                let import: TokenStream = tokens.by_ref().take_while(|token| !is_punct(token, ';')).collect();
                if let Ok(tree) = syn::parse2(import) {
                    add_import(&tree, Vec::new(), found);
                }
            }
            TokenTree::Ident(word) => {
                let path = rest_of_path(word.to_string(), &mut tokens);
                if is_path {
                    found.paths.push(path);
                }
                is_path = true;
            }
            TokenTree::Group(group) => read(group.stream(), found),
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = tokens.next_if(is_bracket) {
                    if is_test_attribute(&format!("{}]", attribute.stream())) {
                        skip_item(&mut tokens);
                    } else {
                        read_attribute(attribute.stream(), found);
                    }
                }
            }
            TokenTree::Punct(punct) => {
                // After `..`, a range, a path may follow.
                let is_range = punct.spacing() == Spacing::Joint && punct.as_char() == '.';
                is_path = !matches!(punct.as_char(), '.' | '\'');
                if is_range && tokens.next_if(|token| is_punct(token, '.')).is_some() {
                    is_path = true;
                }
            }
            TokenTree::Literal(_) => is_path = true,
        }
    }
}

/// The path that begins with this word.
fn rest_of_path(first: String, tokens: &mut Peekable<impl Iterator<Item = TokenTree>>) -> Vec<String> {
    let mut path = vec![first];
    let is_colon = |token: &TokenTree| is_punct(token, ':');
    while let Some(TokenTree::Punct(colon)) = tokens.peek() {
        if colon.as_char() != ':' || colon.spacing() != Spacing::Joint {
            break;
        }
        let (_, _) = (tokens.next_if(is_colon), tokens.next_if(is_colon));
        // A path is followed as far as a turbofish.
        let Some(TokenTree::Ident(word)) = tokens.next_if(|token| matches!(token, TokenTree::Ident(_)))
        else {
            break;
        };
        path.push(word.to_string());
    }
    path
}

fn add_import(tree: &UseTree, mut path: Vec<String>, found: &mut Found) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            add_import(&part.tree, path, found);
        }
        UseTree::Group(group) => group.items.iter().for_each(|part| add_import(part, path.clone(), found)),
        UseTree::Glob(_) => {
            found.paths.push(path.clone());
            found.globs.push(path);
        }
        UseTree::Name(name) if name.ident == "self" => {
            let last = path.last().cloned().unwrap_or_default();
            add_name(last, path, found);
        }
        UseTree::Name(name) => {
            path.push(name.ident.to_string());
            add_name(name.ident.to_string(), path, found);
        }
        UseTree::Rename(rename) => {
            if rename.ident != "self" {
                path.push(rename.ident.to_string());
            }
            add_name(rename.rename.to_string(), path, found);
        }
    }
}

fn add_name(name: String, path: Vec<String>, found: &mut Found) {
    found.paths.push(path.clone());
    // `use name;` would lead back to itself.
    if path != [name.as_str()] {
        found.imports.push((name, path));
    }
}

/// The paths in an attribute; serde's are strings.
fn read_attribute(attribute: TokenStream, found: &mut Found) {
    let mut tokens = attribute.clone().into_iter();
    if !matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "serde") {
        if !attribute.to_string().starts_with("doc") {
            read(attribute, found);
        }
        return;
    }
    for token in tokens
        .filter_map(|token| if let TokenTree::Group(group) = token { Some(group.stream()) } else { None })
        .flatten()
    {
        if let TokenTree::Literal(text) = token
            && let Ok(path) = text.to_string().trim_matches('"').parse()
        {
            read(path, found);
        }
    }
}

/// Skips an item, to the end of its body or to its semicolon.
fn skip_item(tokens: &mut impl Iterator<Item = TokenTree>) {
    let is_body =
        |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
    tokens.find(|token| is_body(token) || is_punct(token, ';'));
}

fn is_bracket(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket)
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}
