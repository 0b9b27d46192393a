//! What the elements of a figure look like: as much of the cascade as `figure.css` needs (CSS Selectors 3,
//! CSS Cascade 4).
//!
//! A selector is `.figure` and at most one descendant: an element's name, classes, and classes that it must
//! not have.

/// How something is painted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Paint {
    /// Not at all.
    None,
    /// In the colour of the group.
    Current,
    /// In red, green and blue from 0 to 1.
    Solid([f32; 3]),
}

/// The properties of an element. All are inherited, as in SVG.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Style {
    /// The colour of [`Paint::Current`].
    pub(super) colour: [f32; 3],
    pub(super) fill: Paint,
    pub(super) stroke: Paint,
    pub(super) fill_opacity: f32,
    pub(super) stroke_opacity: f32,
    pub(super) stroke_width: f32,
    /// Lengths of dashes and gaps; empty for a solid line.
    pub(super) dash: Vec<f32>,
    pub(super) round_cap: bool,
    pub(super) round_join: bool,
    pub(super) is_bold: bool,
    /// In the figure's units.
    pub(super) font_size: f32,
}

/// SVG's initial values.
const INITIAL: Style = Style {
    colour: [0.0; 3],
    fill: Paint::Solid([0.0; 3]),
    stroke: Paint::None,
    fill_opacity: 1.0,
    stroke_opacity: 1.0,
    stroke_width: 1.0,
    dash: Vec::new(),
    round_cap: false,
    round_join: false,
    is_bold: false,
    font_size: 16.0,
};

pub(in super::super) struct Sheet<'a> {
    /// The least specific first; equally specific ones in the order of the text.
    rules: Vec<Rule<'a>>,
}

struct Rule<'a> {
    /// For the figure itself, not for its parts.
    of_root: bool,
    element: &'a str,
    classes: Vec<&'a str>,
    not: Vec<&'a str>,
    declarations: Vec<(&'a str, &'a str)>,
}

impl<'a> Sheet<'a> {
    /// Reads a style sheet without comments and variables. What it does not know is skipped.
    pub(in super::super) fn parse(css: &'a str) -> Sheet<'a> {
        let mut rules = Vec::new();
        for (selectors, body) in css.split('}').filter_map(|rule| rule.split_once('{')) {
            let declarations: Vec<(&str, &str)> = body
                .split(';')
                .filter_map(|one| one.split_once(':'))
                .map(|(name, value)| (name.trim(), value.trim()))
                .collect();
            rules.extend(apart(selectors).into_iter().filter_map(|one| Rule::parse(one, &declarations)));
        }
        rules.sort_by_key(Rule::specificity);
        Sheet { rules }
    }

    /// The style of the figure itself.
    pub(super) fn root(&self) -> Style {
        self.cascade(&INITIAL, |rule| rule.of_root)
    }

    /// The style of an element with these classes, separated by spaces, in a group.
    pub(super) fn style(&self, parent: &Style, element: &str, classes: &str) -> Style {
        let classes: Vec<&str> = classes.split_whitespace().collect();
        self.cascade(parent, |rule| !rule.of_root && rule.matches(element, &classes))
    }

    fn cascade(&self, parent: &Style, matches: impl Fn(&Rule<'a>) -> bool) -> Style {
        let mut style = parent.clone();
        for (name, value) in
            self.rules.iter().filter(|rule| matches(rule)).flat_map(|rule| &rule.declarations)
        {
            // A test asserts that nothing in the figures' style sheet is skipped here.
            let _ = style.set(parent, name, value);
        }
        style
    }
}

/// Selectors separated by commas outside parentheses.
fn apart(selectors: &str) -> Vec<&str> {
    let mut depth = 0;
    let comma = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    selectors.split(comma).map(str::trim).collect()
}

impl<'a> Rule<'a> {
    fn parse(selector: &'a str, declarations: &[(&'a str, &'a str)]) -> Option<Rule<'a>> {
        let rest = selector.strip_prefix(".figure")?;
        let (compound, not) = rest.split_once(":not(").unwrap_or((rest, ""));
        let mut parts = compound.trim().split('.');
        let element = parts.next().unwrap_or("");
        let not = not.trim_end_matches(')').split(',').map(|class| class.trim().trim_start_matches('.'));
        Some(Rule {
            of_root: rest.is_empty(),
            element,
            classes: parts.collect(),
            not: not.filter(|class| !class.is_empty()).collect(),
            declarations: declarations.to_vec(),
        })
    }

    /// Classes, then elements; of excluded classes only the most specific counts.
    fn specificity(&self) -> (usize, usize) {
        (self.classes.len() + usize::from(!self.not.is_empty()), usize::from(!self.element.is_empty()))
    }

    fn matches(&self, element: &str, classes: &[&str]) -> bool {
        (self.element.is_empty() || self.element == element)
            && self.classes.iter().all(|class| classes.contains(class))
            && !self.not.iter().any(|class| classes.contains(class))
    }
}

impl Style {
    /// Sets a property; `None` if the property or its value is unknown.
    fn set(&mut self, parent: &Style, name: &str, value: &str) -> Option<()> {
        match (name, value) {
            ("fill", "inherit") => self.fill = parent.fill,
            ("fill", _) => self.fill = paint(value)?,
            ("stroke", _) => self.stroke = paint(value)?,
            ("color", _) => self.colour = colour(value)?,
            ("fill-opacity", _) => self.fill_opacity = value.parse().ok()?,
            ("stroke-opacity", _) => self.stroke_opacity = value.parse().ok()?,
            ("stroke-width", _) => self.stroke_width = value.parse().ok()?,
            ("stroke-dasharray", _) => {
                self.dash =
                    value.split_whitespace().map(|length| length.parse().ok()).collect::<Option<_>>()?;
            }
            ("stroke-linecap", "round" | "butt") => self.round_cap = value == "round",
            ("stroke-linejoin", "round") => self.round_join = true,
            ("font-size", _) => self.font_size = value.strip_suffix("px")?.parse().ok()?,
            ("font-weight", _) => self.is_bold = value.parse::<u32>().ok()? >= 600,
            // The family is always Helvetica, whose digits all have one width; each text has its own anchor.
            ("font-family" | "font-variant-numeric" | "text-anchor", _) => {}
            _ => return None,
        }
        Some(())
    }
}

fn paint(value: &str) -> Option<Paint> {
    match value {
        "none" => Some(Paint::None),
        "currentColor" => Some(Paint::Current),
        _ => colour(value).map(Paint::Solid),
    }
}

/// `#rrggbb`.
fn colour(value: &str) -> Option<[f32; 3]> {
    let digits = value.strip_prefix('#').filter(|digits| digits.len() == 6)?;
    let rgb = u32::from_str_radix(digits, 16).ok()?;
    Some([16, 8, 0].map(|shift| ((rgb >> shift) & 0xff) as f32 / 255.0))
}

#[cfg(test)]
mod tests {
    use super::super::super::light_style;
    use super::super::super::svg::is_bold;
    use super::*;

    #[test]
    fn every_rule_of_the_figures_is_understood() {
        let css = light_style();
        let sheet = Sheet::parse(&css);
        assert_eq!(sheet.rules.iter().filter(|rule| rule.of_root).count(), 2);
        assert!(sheet.rules.len() > 40, "{}", sheet.rules.len());
        for rule in &sheet.rules {
            for (name, value) in &rule.declarations {
                assert!(INITIAL.clone().set(&INITIAL, name, value).is_some(), "{name}: {value}");
            }
        }
        assert_eq!(css.matches(".figure").count(), sheet.rules.len());
    }

    #[test]
    fn what_is_planned_as_bold_is_bold() {
        let css = light_style();
        let sheet = Sheet::parse(&css);
        assert_eq!(css.matches("font-weight").count(), 2, "the classes of `is_bold`");
        for class in ["winner", "on d0", "name", "tick-text end", "axis-title", "margin", "value"] {
            assert_eq!(sheet.style(&sheet.root(), "text", class).is_bold, is_bold(class), "{class}");
        }
    }

    #[test]
    fn the_more_specific_rule_wins_and_the_rest_is_inherited() {
        let sheet = Sheet::parse(
            ".figure { fill: #ff0000; font-size: 11px }\n.figure .a { stroke-width: 3 } .figure .a.b { \
             stroke-width: 4 }.figure .a { stroke-width: 2; color: #00ff00 } .figure text { fill: inherit } \
             .figure .c, .figure .d { fill: none }.figure .a:not(.b, .c) { stroke: currentColor }",
        );
        let root = sheet.root();
        assert_eq!((root.fill, root.font_size), (Paint::Solid([1.0, 0.0, 0.0]), 11.0));
        let of = |element: &str, classes: &str| sheet.style(&root, element, classes);
        assert_eq!((of("path", "a").stroke_width, of("path", "b a").stroke_width), (2.0, 4.0));
        assert_eq!((of("path", "a").stroke, of("path", "a b").stroke), (Paint::Current, Paint::None));
        assert_eq!(of("path", "a").colour, [0.0, 1.0, 0.0]);
        let group = of("g", "d");
        assert_eq!((group.fill, sheet.style(&group, "text", "").fill), (Paint::None, Paint::None));
    }
}
