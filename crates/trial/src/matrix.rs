//! What `run-all` runs: strategies × scenarios.

use crate::ground::Place;
use crate::sale::Sale;
use crate::strategy::{self, Group};

/// A scenario of the matrix.
#[derive(Debug)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// The command that runs it, without `--lock` and `--seed`.
    pub command: &'static str,
    stock: u32,
    wait_ms: u64,
    /// The end of its files' names.
    suffix: &'static str,
}

/// Every scenario, in the order of the columns.
pub const COLUMNS: [Column; 2] = [
    Column {
        name: "race",
        command: "oversell",
        stock: Sale::STOCK,
        wait_ms: 0,
        suffix: "",
    },
    Column {
        name: "queue",
        command: "oversell --stock=5 --wait 20000",
        stock: 5,
        wait_ms: 20_000,
        suffix: "_wait",
    },
];

/// One trial of the matrix.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Which of [`COLUMNS`].
    pub column: usize,
    /// What is tried.
    pub sale: Sale,
}

impl Cell {
    /// The name of its files, without their ending.
    pub fn file_stem(&self) -> String {
        format!(
            "oversell_{}{}",
            self.sale.strategy.name, COLUMNS[self.column].suffix
        )
    }
}

/// Every trial, in the order in which they run.
pub fn cells(place: &Place, seed: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (index, column) in COLUMNS.iter().enumerate() {
        let here = strategy::ALL
            .into_iter()
            .filter(|strategy| strategy.exists_at(place));
        for strategy in here {
            // Only good locks are worth waiting for: without a lock nobody waits, and a flawed one is not at its best.
            if column.wait_ms > 0 && strategy.group != Group::Locks {
                continue;
            }
            let mut sale = Sale::new(strategy, seed);
            (sale.stock, sale.wait_ms) = (column.stock, column.wait_ms);
            sale.place = place.clone();
            cells.push(Cell {
                column: index,
                sale,
            });
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_files_of_its_own_and_a_command_that_says_what_it_runs() {
        let cells = cells(&Place::Sqlite, 1);
        let mut stems: Vec<String> = cells.iter().map(Cell::file_stem).collect();
        assert_eq!(stems.len(), strategy::ALL.len() + 3);
        assert_eq!(stems[0], "oversell_none");
        assert_eq!(stems[strategy::ALL.len()], "oversell_safe_wait");
        stems.sort();
        stems.dedup();
        assert_eq!(stems.len(), cells.len());
        for cell in cells.iter().filter(|cell| cell.sale.wait_ms > 0) {
            let command = COLUMNS[cell.column].command;
            assert!(
                command.contains(&format!("--wait {}", cell.sale.wait_ms)),
                "{command}"
            );
            assert!(
                command.contains(&format!("--stock={}", cell.sale.stock)),
                "{command}"
            );
        }
    }
}
