//! The viewer: scripts and styles that draw swim lanes. The lab's reports and the live page of `serve` share it.
//!
//! The scripts and styles are in files beside this one. [`script`] and [`style`] join them with those of a page.

const LIGHT: &str = include_str!("light.css");
const DARK: &str = include_str!("dark.css");
const BASE: &str = include_str!("base.css");
const LANES: &str = include_str!("lanes.css");
/// The scripts in order of dependency.
const SCRIPTS: [&str; 16] = [
    include_str!("dom.js"),
    include_str!("format.js"),
    include_str!("theme.js"),
    include_str!("decode.js"),
    include_str!("fold.js"),
    include_str!("words.js"),
    include_str!("describe.js"),
    include_str!("view.js"),
    include_str!("palette.js"),
    include_str!("paint-frame.js"),
    include_str!("paint-bars.js"),
    include_str!("paint-marks.js"),
    include_str!("overview.js"),
    include_str!("input.js"),
    include_str!("lanes.js"),
    include_str!("legend.js"),
];

/// The styles of a page between the shared ones of the viewer and those of its lanes.
pub fn style(own: &str) -> String {
    format!(
        ":root {{\n{LIGHT}}}\n:root[data-theme=dark] {{\n{DARK}}}\n\
         @media (prefers-color-scheme: dark) {{ :root:not([data-theme]) {{\n{DARK}}} }}\n{BASE}{own}{LANES}"
    )
}

/// The scripts of the viewer and then those of a page, joined into one.
///
/// `import` and `export` are for editors and are removed here, so every `import` must fit on one line and no two scripts may define the
/// same name.
pub fn script(own: &[&str]) -> String {
    let mut text = String::from("\n");
    for line in SCRIPTS.iter().chain(own).flat_map(|script| script.lines()) {
        if line.starts_with("import ") {
            continue;
        }
        text.push_str(line.strip_prefix("export ").unwrap_or(line));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joined_script_has_no_modules_left_and_ends_with_the_page() {
        let page = "import { $ } from './dom.js';\nexport const last = 1;\n";
        let script = script(&[page]);
        assert!(script.ends_with("\nconst last = 1;\n"));
        let of_module = |line: &&str| line.starts_with("import ") || line.starts_with("export ");
        assert_eq!(script.lines().find(of_module), None);
    }

    #[test]
    fn the_styles_of_a_page_come_before_those_of_the_lanes() {
        let style = style("#own {}\n");
        let (before, after) = style.split_once("#own {}\n").unwrap();
        assert!(before.contains(BASE) && after == LANES);
    }
}
