//! Computes the cycles and the layers of a graph of modules.

use std::collections::{BTreeMap, BTreeSet};

/// The imports of each module. Every module is a key.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns every group of modules that reach each other, sorted by name. Empty if the graph has no cycle.
pub(super) fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|from| (from.as_str(), reachable(graph, from)))
        .collect();
    let mut cycles: Vec<Vec<String>> = Vec::new();
    for module in graph.keys() {
        let is_known = cycles.iter().any(|cycle| cycle.contains(module));
        if is_known || !reached[module.as_str()].contains(module.as_str()) {
            continue;
        }
        let returns = |other: &&&str| reached[**other].contains(module.as_str());
        let cycle = reached[module.as_str()].iter().filter(returns);
        cycles.push(cycle.map(|name| (*name).to_owned()).collect());
    }
    cycles
}

fn reachable<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(module) = open.pop() {
        for next in graph.get(module).into_iter().flatten() {
            if found.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    found
}

/// Returns the modules from the lowest layer up: each imports only from layers below its own. The graph must have no cycle.
pub(super) fn layers(graph: &Graph) -> Vec<Vec<String>> {
    let mut level: BTreeMap<&str, usize> = BTreeMap::new();
    while level.len() < graph.len() {
        for (module, imports) in graph {
            let below: Option<Vec<usize>> = imports
                .iter()
                .map(|name| level.get(name.as_str()).copied())
                .collect();
            if let Some(below) = below {
                level.insert(
                    module,
                    below.into_iter().max().map_or(0, |highest| highest + 1),
                );
            }
        }
    }
    let highest = level.values().max().map_or(0, |highest| highest + 1);
    let mut layers = vec![Vec::new(); highest];
    for (module, level) in level {
        layers[level].push(module.to_owned());
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(imports: &[(&str, &[&str])]) -> Graph {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        imports
            .iter()
            .map(|(from, to)| ((*from).to_owned(), owned(to)))
            .collect()
    }

    #[test]
    fn modules_that_reach_each_other_are_a_cycle() {
        let graph = graph(&[
            ("a", &["b"]),
            ("b", &["c"]),
            ("c", &["b", "d"]),
            ("d", &[]),
            ("e", &["e"]),
        ]);
        assert_eq!(cycles(&graph), [vec!["b", "c"], vec!["e"]]);
    }

    #[test]
    fn a_module_lies_above_all_that_it_imports() {
        let graph = graph(&[
            ("top", &["left", "base"]),
            ("left", &["base"]),
            ("base", &[]),
            ("alone", &[]),
        ]);
        assert_eq!(cycles(&graph), Vec::<Vec<String>>::new());
        assert_eq!(
            layers(&graph),
            [vec!["alone", "base"], vec!["left"], vec!["top"]]
        );
    }
}
