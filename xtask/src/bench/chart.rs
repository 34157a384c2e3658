//! Draws the ratios as a bar chart in SVG: a panel for each workload, with its own scale that starts at zero.

use super::figures::{Figures, Row, short};

/// The name of this library among the contenders.
const OURS: &str = "fencepost";

const WIDTH: f64 = 820.0;
const MARGIN: f64 = 20.0;
/// Where the bars begin and how long they can be. Names are before them, figures in a column after them.
const BARS_FROM: f64 = 170.0;
const BARS_LONG: f64 = 480.0;
const FIGURES_AT: f64 = BARS_FROM + BARS_LONG + 12.0;
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const HEADING: f64 = 44.0;
const GAP: f64 = 16.0;

/// Styles for light and dark mode.
const STYLE: &str = "
  svg { color: #1f2328; --ground: #ffffff; --ours: #0969da; --others: #8c959f; --goal: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    svg { color: #e6edf3; --ground: #0d1117; --ours: #4493f8; --others: #6e7681; --goal: #f0883e; }
  }
  text { font: 12px system-ui, sans-serif; fill: currentColor; }
  .title { font-weight: 600; font-size: 13px; } .quiet { opacity: .7; } .name { text-anchor: end; }
  .ground { fill: var(--ground); } .ours { fill: var(--ours); } .others { fill: var(--others); }
  .one { stroke: currentColor; } .spread { stroke: currentColor; opacity: .6; }
  .goal { stroke: var(--goal); stroke-width: 2; } .goal-text { fill: var(--goal); }
";

pub(super) fn draw(figures: &Figures, title: &str) -> String {
    let mut top = MARGIN;
    let mut body = String::new();
    for panel in panels(&figures.rows) {
        body += &draw_panel(&panel, top);
        top += HEADING + ROW * panel.len() as f64 + GAP;
    }
    let versions = format!(
        "{}; {} cores. Bars: medians of the ratios of interleaved rounds; thin lines: the least and the greatest.",
        figures.machine.versions.join(", "),
        figures.machine.cores
    );
    for line in lines_of(&versions, 128) {
        body += &text(MARGIN, top + 4.0, "quiet", &line);
        top += 16.0;
    }
    let height = top + MARGIN / 2.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n{body}</svg>\n"
    )
}

/// Returns the rows of the same workload with the same baseline. A second comparison of a workload appears only in the table.
fn panels(rows: &[Row]) -> Vec<Vec<&Row>> {
    let mut panels: Vec<Vec<&Row>> = Vec::new();
    for row in rows.iter().filter(|row| row.ratio.is_some()) {
        let of_workload = |panel: &&mut Vec<&Row>| panel[0].workload == row.workload;
        match panels.iter_mut().find(of_workload) {
            Some(panel) if panel[0].against.one_is == row.against.one_is => panel.push(row),
            Some(_) => {}
            None => panels.push(vec![row]),
        }
    }
    panels
}

fn draw_panel(rows: &[&Row], top: f64) -> String {
    let first = rows[0];
    let better = if first.against.more_is_better {
        "more is better"
    } else {
        "time: less is better"
    };
    let mut body = text(
        MARGIN,
        top + 12.0,
        "title",
        &format!("{} {}", first.workload, first.what),
    );
    let quiet = format!("1 is {}; {better}", first.against.one_is);
    body += &text(MARGIN, top + 28.0, "quiet", &quiet);
    let scale = BARS_LONG / greatest(rows);
    let bars_top = top + HEADING - 6.0;
    for (number, row) in rows.iter().enumerate() {
        body += &draw_bar(row, bars_top + ROW * number as f64, scale);
    }
    let (one, end) = (BARS_FROM + scale, bars_top + ROW * rows.len() as f64);
    body + &line("one", one, bars_top - 4.0, one, end)
}

/// Returns the end of a panel's scale. Spreads that reach beyond it are cut off.
fn greatest(rows: &[&Row]) -> f64 {
    let medians = rows
        .iter()
        .filter_map(|row| Some(row.ratio.as_ref()?.median));
    let goals = rows.iter().filter_map(|row| Some(row.goal?.value()));
    medians.chain(goals).fold(1.0, f64::max) * 1.1
}

fn draw_bar(row: &Row, top: f64, scale: f64) -> String {
    let Some(ratio) = &row.ratio else {
        return String::new();
    };
    let is_ours = row.goal.is_some() || row.contender == OURS;
    let class = if is_ours { "ours" } else { "others" };
    let (length, middle) = (ratio.median * scale, top + BAR / 2.0);
    let mut body = text(BARS_FROM - 8.0, top + 11.0, "name", &row.contender);
    body += &format!(
        "<rect class=\"{class}\" x=\"{BARS_FROM}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR}\"/>\n"
    );
    let at = |value: f64| BARS_FROM + (value * scale).min(BARS_LONG);
    body += &line("spread", at(ratio.min), middle, at(ratio.max), middle);
    body += &text(FIGURES_AT, top + 11.0, "", &short(ratio.median));
    if let (Some(goal), Some(met)) = (row.goal, row.met) {
        let x = at(goal.value());
        body += &line("goal", x, top - 3.0, x, top + BAR + 3.0);
        let verdict = if met { "met" } else { "missed" };
        body += &text(
            FIGURES_AT + 44.0,
            top + 11.0,
            "goal-text",
            &format!("{goal} {verdict}"),
        );
    }
    body
}

fn text(x: f64, y: f64, class: &str, words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>\n")
}

fn line(class: &str, x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n"
    )
}

/// Wraps a text at this number of characters.
fn lines_of(words: &str, longest: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > longest {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::SAMPLE;

    fn sample() -> Figures {
        serde_json::from_str(SAMPLE).unwrap()
    }

    #[test]
    fn a_bar_is_as_long_as_its_ratio_says() {
        let svg = draw(&sample(), "Locks");
        let width = |class: &str| -> f64 {
            let from = svg.find(&format!("<rect class=\"{class}\"")).unwrap();
            let width = svg[from..].split("width=\"").nth(1).unwrap();
            width.split('"').next().unwrap().parse().unwrap()
        };
        // The first panel: 0.5 for ours and 0.25 for the other, on a scale that ends beyond 1.
        assert!(
            (width("ours") / width("others") - 2.0).abs() < 0.01,
            "{svg}"
        );
        assert!((width("ours") - 0.5 * BARS_LONG / 1.1).abs() < 0.1, "{svg}");
    }

    #[test]
    fn goals_are_marked_and_words_cannot_break_the_picture() {
        let svg = draw(&sample(), "Locks");
        assert_eq!(svg.matches("<line class=\"goal\"").count(), 2);
        assert!(svg.contains("≥ 0.85 missed") && svg.contains("≤ 1.05 met"));
        assert!(svg.contains("W1 a &lt;pair>") && !svg.contains("<pair>"));
        assert!(!svg.contains("W5"), "nothing to draw there");
    }
}
