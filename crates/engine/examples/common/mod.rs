//! What the examples share: the file that they read, and where they read it.

use iopj_engine::Target;
use iopj_engine::target::make_file;
use std::error::Error;
use std::path::{Path, PathBuf};

/// A file to read; one that was made for it is removed at the end.
pub(crate) struct Data {
    path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Data {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The file or the device that the first argument names, or a temporary file of 1 MiB in the current folder.
pub(crate) fn data() -> Result<Data, Box<dyn Error>> {
    if let Some(path) = std::env::args_os().nth(1) {
        return Ok(Data { path: path.into(), _folder: None });
    }
    let folder = tempfile::tempdir_in(".")?;
    let path = folder.path().join("data");
    make_file(&path, 1 << 20, &mut |_| true)?;
    Ok(Data { path, _folder: Some(folder) })
}

/// Random offsets of blocks of `len` bytes, without end.
pub(crate) fn offsets(target: &Target, len: u32) -> impl Iterator<Item = u64> + use<> {
    let (first, blocks) = (target.data_offset(), target.data_len() / u64::from(len));
    let mut state = 1_u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        first + (state >> 33) % blocks * u64::from(len)
    })
}
