//! The operators in a figure's document. The crate's integration tests open such documents with real readers.

use super::super::light_style;
use super::super::svg::Canvas;
use super::*;

/// The document of a drawing of 100 by 40 units, as text.
fn drawn(draw: impl FnOnce(&mut Canvas)) -> String {
    let mut canvas = Canvas::new(100.0, 40.0);
    draw(&mut canvas);
    let css = light_style();
    String::from_utf8_lossy(&document(&canvas.finish("T (1)"), &Sheet::parse(&css))).into_owned()
}

/// The page's operators.
fn operators(document: &str) -> &str {
    document.split_once("stream\n").unwrap().1.split_once("\nendstream").unwrap().0
}

#[test]
fn a_page_is_as_large_as_its_drawing_and_has_its_title() {
    let document = drawn(|_| {});
    assert!(document.starts_with("%PDF-1.7") && document.ends_with("%%EOF"), "{document}");
    assert!(document.contains("/MediaBox [0 0 75 30]") && document.contains("/Title (T (1))"), "{document}");
    assert!(!document.contains("/BaseFont"), "no text, no font");
    assert_eq!(operators(&document), "0.75 0 0 -0.75 0 30 cm");
}

#[test]
fn marks_have_the_colour_of_their_series_and_rectangles_their_opacity() {
    let document = drawn(|canvas| {
        canvas.begin_series(1);
        canvas.mark((10.0, 10.0), 1, "mark hollow", "");
        canvas.rect((0.0, 0.0), (8.0, 4.0), "mark cell tie", "a tip is not drawn");
        canvas.end_series();
    });
    let all = operators(&document);
    // #d55e00, filled with the colour of the paper.
    let colour = "0.8352941 0.36862746 0";
    assert!(all.contains(&format!("1 1 1 rg\n{colour} RG\n1.4 w")), "{all}");
    assert!(all.contains("6.5 6.5 m\n13.5 6.5 l\n13.5 13.5 l\n6.5 13.5 l\nh\nB"), "{all}");
    assert!(
        all.contains(&format!("/o0 gs\n{colour} rg\n{colour} RG\n1 w"))
            && all.contains("[4 3] 0 d\n0 0 8 4 re\nB"),
        "{all}"
    );
    assert!(
        document.contains("/ca 0.05") && document.contains("/CA 0.55") && !document.contains("a tip"),
        "{document}"
    );
}

#[test]
fn a_circle_is_four_curves_back_to_its_start() {
    let document = drawn(|canvas| canvas.mark((10.0, 20.0), 0, "key", ""));
    let all = operators(&document);
    assert_eq!(all.matches(" c\n").count(), 4);
    assert!(all.contains("13.6 20 m\n13.6 21.99 11.99 23.6 10 23.6 c"), "{all}");
    assert!(all.contains("11.99 16.4 13.6 18.01 13.6 20 c\nh\nB"), "{all}");
}

#[test]
fn steps_of_a_path_go_to_places_and_by_ways() {
    let document = drawn(|canvas| canvas.error_bars(&[(5.0, [(30.0, true), (10.0, false)])]));
    let all = operators(&document);
    assert!(all.contains("5 30 m\n5 10 l\n2 30 m\n8 30 l\nS"), "{all}");
}

#[test]
fn texts_stand_upright_at_their_anchor() {
    let document = drawn(|canvas| {
        canvas.text((50.0, 10.0), Anchor::Start, "axis-title", "a\\(b) \u{2192}");
        canvas.texts(Anchor::End, "tick-text", &[((50.0, 20.0), "00".to_owned())]);
        canvas.text((50.0, 30.0), Anchor::Middle, "on d0", "0000");
    });
    let all = operators(&document);
    assert!(all.contains("1 0 0 -1 50 10 Tm\n/regular 11 Tf\n(a\\\\(b) ) Tj\n/symbol 11 Tf"), "{all}");
    // Two, plus half of four digits of 0.556 times 11 units.
    assert!(all.contains("1 0 0 -1 37.77 20 Tm"), "{all}");
    assert!(all.contains("0 0 0 rg\n1 0 0 -1 37.77 30 Tm\n/bold 11 Tf\n(0000) Tj"), "{all}");
    for base in ["/Helvetica", "/Helvetica-Bold", "/Symbol"] {
        assert_eq!(document.matches(&format!("/BaseFont {base}\n")).count(), 1, "{document}");
    }
    assert_eq!(document.matches("/WinAnsiEncoding").count(), 2);
}

#[test]
fn what_is_no_number_is_drawn_at_nought() {
    let document = drawn(|canvas| canvas.line((f64::NAN, f64::INFINITY), (1.0, 2.0), "base"));
    assert!(operators(&document).contains("0 0 m\n1 2 l"), "{document}");
}

#[test]
fn what_the_fonts_lack_is_held_to_its_planned_width() {
    let document = drawn(|canvas| canvas.text((50.0, 10.0), Anchor::End, "name", "e\u{301}\u{302}\u{303}"));
    // Four letters of 0.556 times 11 units, in room for one.
    assert!(operators(&document).contains("28.6"), "{document}");
}
