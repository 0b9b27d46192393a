//! A figure of the report with the table behind it, and the page's sections that hold figures.

use super::svg::drawing::Drawing;
use super::text::slug;

/// A figure with the data behind it.
pub(super) struct Figure {
    /// Name of its file, without an extension; an id within the page.
    pub(super) id: String,
    /// The whole title, used outside the page.
    pub(super) title: String,
    /// The title under the headings of its section and group.
    pub(super) caption: String,
    pub(super) drawing: Drawing,
    /// Headings and rows of its table.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// It needs the page's whole width.
    pub(super) wide: bool,
    /// The note below it.
    pub(super) note: Option<Note>,
}

impl Figure {
    /// A figure with the title of its drawing; `None` if its table has no rows.
    pub(super) fn new(
        caption: String,
        drawing: Drawing,
        (columns, rows): (Vec<String>, Vec<Vec<String>>),
    ) -> Option<Figure> {
        let title = drawing.title.clone();
        let (id, wide, note) = (slug(&title), false, None);
        (!rows.is_empty()).then_some(Figure { id, title, caption, drawing, columns, rows, wide, note })
    }
}

/// A sentence and its list.
pub(super) struct Note {
    pub(super) words: String,
    pub(super) items: Vec<String>,
}

/// Figures that belong together, under a heading of their own.
pub(super) struct Group {
    pub(super) heading: String,
    pub(super) figures: Vec<Figure>,
}

impl Group {
    /// A group; `None` if it has no figures.
    pub(super) fn new(heading: impl Into<String>, figures: Vec<Figure>) -> Option<Group> {
        (!figures.is_empty()).then(|| Group { heading: heading.into(), figures })
    }
}

/// A part of the page.
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) heading: &'static str,
    /// What is shown, or, without groups, why nothing is shown.
    pub(super) words: String,
    pub(super) groups: Vec<Group>,
    /// Tables below the figures, as HTML.
    pub(super) tables: String,
}

impl Section {
    /// A section without words if it has no figures.
    pub(super) fn new(
        (id, heading): (&'static str, &'static str),
        words: impl Into<String>,
        groups: impl IntoIterator<Item = Group>,
    ) -> Section {
        let groups: Vec<Group> = groups.into_iter().collect();
        let words = if groups.is_empty() { String::new() } else { words.into() };
        Section { id, heading, words, groups, tables: String::new() }
    }
}

/// With more cells or trials than this, points, strokes and the cells of maps have no tooltips, which would
/// make the page large: their values are in the tables.
pub(super) const TIPPED_CELLS: usize = 400;
