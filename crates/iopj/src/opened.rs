//! A store that figures are read from, and what the user should know of it.

use crate::output::note;
use iopj_store::{Store, StoreError};
use std::path::Path;

/// Opens a store for reading. One whose figures nothing protects is named.
pub(crate) fn open(path: &Path) -> Result<Store, StoreError> {
    let store = Store::open(path)?;
    let trials = match store.trials_without_checksum()? {
        0 => return Ok(store),
        1 => "1 trial is".to_owned(),
        many => format!("{many} trials are"),
    };
    note(&format!(
        "note: of `{}`, {trials} from an iopj that wrote no checksums: damage would not be noticed; measure \
         again where that matters",
        path.display(),
    ));
    Ok(store)
}
