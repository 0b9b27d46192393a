//! How an interface on a ring writes its entries and reads its results.

use crate::error::EngineError;
use crate::request::{IoError, Op, Operation, Transfer};
use crate::ring::raw::SQE_LEN;
use linux_raw_sys::io_uring as sys;
use std::ptr::NonNull;

/// What entries of a ring have in common.
#[derive(Clone, Copy)]
pub(crate) struct EntryBase {
    /// Descriptor as entries name it: a number, or an index of registered files.
    pub(crate) fd: i32,
    /// Buffers and file are registered.
    pub(crate) registered: bool,
}

/// How one interface writes an entry and reads its result.
pub(crate) trait EntryFormat {
    /// Set-up flags that the interface needs.
    const SETUP: u32;
    /// Length of an entry of the submission queue under those flags.
    const ENTRY_LEN: usize = if Self::SETUP & sys::IORING_SETUP_SQE128 == 0 { SQE_LEN } else { 2 * SQE_LEN };

    /// What is kept of a transfer until its result is read.
    type Kept: Copy + Default;
    /// What the kernel reads until a rare request ends.
    type Extra: Default;

    /// Refuses a transfer that the interface cannot express.
    ///
    /// # Errors
    /// [`crate::Cause::Unsupported`].
    fn accepts(&self, _transfer: &Transfer) -> Result<(), EngineError> {
        Ok(())
    }

    /// Whether `accepts` does.
    #[inline]
    fn is_accepted(&self, _transfer: &Transfer) -> bool {
        true
    }

    /// Fills a zeroed entry with what all transfers have in common.
    ///
    /// # Safety
    /// `entry` points to [`EntryFormat::ENTRY_LEN`] zeroed bytes, aligned as an `io_uring_sqe`, that nobody
    /// else uses. The whole length may be written through it.
    unsafe fn prepare(&self, entry: NonNull<sys::io_uring_sqe>, base: EntryBase);

    /// Turns an entry that was prepared, and may have held other transfers since, into this transfer, which
    /// `op` is, except `user_data`.
    ///
    /// # Safety
    /// As for [`EntryFormat::prepare`], without the zeros.
    unsafe fn transfer(
        &self,
        entry: NonNull<sys::io_uring_sqe>,
        op: Op,
        transfer: &Transfer,
        address: NonNull<u8>,
        base: EntryBase,
    );

    /// What is kept of a request that moves `len` bytes.
    fn kept(len: u32) -> Self::Kept;

    /// Bytes moved, or the error.
    fn result(&self, result: i32, kept: Self::Kept) -> Result<u32, IoError>;

    /// Why a ring that does not poll cannot do a rare operation; none if it can.
    fn lacks(&self, op: Op, registered: bool) -> Option<&'static str>;

    /// What the kernel reads while a rare request, which the interface has, is in flight.
    ///
    /// # Errors
    /// [`crate::Cause::Unsupported`]: the operands cannot be expressed.
    fn extra(&self, operation: &Operation) -> Result<Self::Extra, EngineError>;

    /// Fills a zeroed entry, except `user_data`, with a rare operation.
    ///
    /// # Safety
    /// As for [`EntryFormat::prepare`].
    unsafe fn rare(
        &self,
        entry: NonNull<sys::io_uring_sqe>,
        operation: &Operation,
        extra: &Self::Extra,
        base: EntryBase,
    );

    /// The interface and its mode, for messages.
    fn name(polls: bool) -> &'static str;
}
