//! Small dense symmetric systems: Cholesky's factor, solutions and inverses.

/// A square matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Square {
    n: usize,
    cells: Vec<f64>,
}

impl Square {
    pub(crate) fn zero(n: usize) -> Square {
        Square { n, cells: vec![0.0; n * n] }
    }

    pub(crate) fn get(&self, row: usize, column: usize) -> f64 {
        self.cells[row * self.n + column]
    }

    pub(crate) fn add(&mut self, row: usize, column: usize, value: f64) {
        self.cells[row * self.n + column] += value;
    }

    /// Makes a variable one of its own: with this variance, and without covariance with any other.
    pub(crate) fn replace(&mut self, at: usize, variance: f64) {
        for other in 0..self.n {
            self.cells[at * self.n + other] = 0.0;
            self.cells[other * self.n + at] = 0.0;
        }
        self.cells[at * self.n + at] = variance;
    }

    /// Adds `weight * v * transposed v`.
    pub(crate) fn add_outer(&mut self, v: &[f64], weight: f64) {
        for (row, a) in v.iter().enumerate().filter(|(_, a)| **a != 0.0) {
            for (column, b) in v.iter().enumerate() {
                self.add(row, column, weight * a * b);
            }
        }
    }

    /// `transposed v * self * v`.
    pub(crate) fn quadratic(&self, v: &[f64]) -> f64 {
        let row = |row: &[f64]| -> f64 { row.iter().zip(v).map(|(a, b)| a * b).sum() };
        v.iter().zip(self.rows()).filter(|(a, _)| **a != 0.0).map(|(a, cells)| a * row(cells)).sum()
    }

    /// The lower factor of a positive definite matrix; `None` of any other.
    fn factor(&self) -> Option<Square> {
        let mut lower = Square::zero(self.n);
        for row in 0..self.n {
            for column in 0..=row {
                let known: f64 = (0..column).map(|k| lower.get(row, k) * lower.get(column, k)).sum();
                let rest = self.get(row, column) - known;
                let cell = match row == column {
                    true if rest > 0.0 => rest.sqrt(),
                    true => return None,
                    false => rest / lower.get(column, column),
                };
                lower.cells[row * self.n + column] = cell;
            }
        }
        Some(lower)
    }

    /// The solution of `self * x = right`; `None` unless the matrix is positive definite.
    pub(crate) fn solve(&self, right: &[f64]) -> Option<Vec<f64>> {
        Some(self.factor()?.solve_factored(right))
    }

    /// With `self` as the lower factor.
    fn solve_factored(&self, right: &[f64]) -> Vec<f64> {
        let mut x = right.to_vec();
        for row in 0..self.n {
            let known: f64 = (0..row).map(|k| self.get(row, k) * x[k]).sum();
            x[row] = (x[row] - known) / self.get(row, row);
        }
        for row in (0..self.n).rev() {
            let known: f64 = (row + 1..self.n).map(|k| self.get(k, row) * x[k]).sum();
            x[row] = (x[row] - known) / self.get(row, row);
        }
        x
    }

    /// The inverse; `None` unless the matrix is positive definite.
    pub(crate) fn inverse(&self) -> Option<Square> {
        let lower = self.factor()?;
        let mut inverse = Square::zero(self.n);
        for column in 0..self.n {
            let mut unit = vec![0.0; self.n];
            unit[column] = 1.0;
            for (row, cell) in lower.solve_factored(&unit).into_iter().enumerate() {
                inverse.cells[row * self.n + column] = cell;
            }
        }
        Some(inverse)
    }

    /// The lower factor times a vector: what independent normal numbers become that shall have this
    /// covariance. Of a matrix that has no factor, each by itself.
    pub(crate) fn drawn(&self, normal: &[f64]) -> Vec<f64> {
        let factor = self.factor();
        let row = |row: usize| match &factor {
            Some(lower) => (0..=row).map(|k| lower.get(row, k) * normal[k]).sum(),
            None => self.get(row, row).max(0.0).sqrt() * normal[row],
        };
        (0..self.n).map(row).collect()
    }

    /// Row by row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.cells.chunks(self.n.max(1))
    }

    /// A matrix of these rows; `None` unless there are as many as each is long.
    pub(crate) fn of_rows(rows: &[Vec<f64>]) -> Option<Square> {
        let n = rows.len();
        let is_square = rows.iter().all(|row| row.len() == n);
        is_square.then(|| Square { n, cells: rows.concat() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solved_system_gives_its_right_side_again() {
        let rows = [vec![4.0, 2.0, 0.6], vec![2.0, 5.0, 1.5], vec![0.6, 1.5, 3.0]];
        let matrix = Square::of_rows(&rows).unwrap();
        let x = matrix.solve(&[1.0, 2.0, 3.0]).unwrap();
        // By elimination in fractions.
        for (got, exact) in x.iter().zip([1.0 / 16.0, 63.0 / 680.0, 16.0 / 17.0]) {
            assert!((got - exact).abs() < 1e-12, "{x:?}");
        }
        let back: Vec<f64> = rows.iter().map(|row| row.iter().zip(&x).map(|(a, b)| a * b).sum()).collect();
        assert!(back.iter().zip([1.0, 2.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{back:?}");
        let inverse = matrix.inverse().unwrap();
        let unit = |row: usize, column: usize| -> f64 {
            (0..3).map(|k| matrix.get(row, k) * inverse.get(k, column)).sum()
        };
        for row in 0..3 {
            for column in 0..3 {
                assert!((unit(row, column) - f64::from(u8::from(row == column))).abs() < 1e-12);
            }
        }
        assert!((matrix.quadratic(&[1.0, 0.0, 2.0]) - (4.0 + 2.0 * 2.0 * 0.6 + 4.0 * 3.0)).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_positive_definite_has_no_solution() {
        let singular = Square::of_rows(&[vec![1.0, 1.0], vec![1.0, 1.0]]).unwrap();
        assert_eq!((singular.solve(&[1.0, 1.0]), singular.inverse()), (None, None));
        assert_eq!(Square::of_rows(&[vec![1.0], vec![1.0]]), None);
    }
}
