//! Requests that are neither a read nor a write of one buffer: they are few, so what each needs until it ends
//! is allocated.

use crate::pool::Buffer;
use crate::request::{Buffers, Completion, IoError, Operation, Request};

/// The identifiers of rare requests start here, where no buffer's number can be.
pub(crate) const RARE: u64 = 1 << 32;

/// One of them in flight, with what the kernel reads or writes until it ends.
pub(crate) struct Rare<T> {
    /// Bytes of its buffers.
    pub(crate) bytes: u32,
    tag: u64,
    buffers: Buffers,
    /// What the interface needs besides: the kernel may have its address.
    pub(crate) extra: T,
}

/// Those in flight, by identifier.
pub(crate) struct RareFlights<T> {
    flights: Vec<Option<Box<Rare<T>>>>,
}

impl<T> RareFlights<T> {
    pub(crate) fn new() -> RareFlights<T> {
        RareFlights { flights: Vec::new() }
    }

    /// Keeps what a request needs until [`RareFlights::end`]; gives its identifier and where it is, which
    /// does not change.
    pub(crate) fn start(&mut self, request: Request, extra: T) -> (u64, &mut Rare<T>) {
        let Request { operation, tag } = request;
        let (bytes, buffers) = (bytes(&operation), operation.into_buffers());
        let place = self.flights.iter().position(Option::is_none).unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        let rare = self.flights[place].insert(Box::new(Rare { bytes, tag, buffers, extra }));
        (RARE | place as u64, rare)
    }

    /// Ends a flight, if there is one of this identifier.
    pub(crate) fn end(&mut self, id: u64) -> Option<Box<Rare<T>>> {
        self.flights.get_mut((id ^ RARE) as usize)?.take()
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Rare<T>> {
        self.flights.get_mut((id ^ RARE) as usize)?.as_deref_mut()
    }
}

impl<T> Rare<T> {
    pub(crate) fn complete(self, result: Result<u32, IoError>) -> Completion {
        Completion { tag: self.tag, result, buffers: self.buffers }
    }
}

/// The buffers of a vectored operation.
fn several(operation: &Operation) -> &[Buffer] {
    match operation {
        Operation::ReadVectored { buffers, .. } | Operation::WriteVectored { buffers, .. } => buffers,
        _ => &[],
    }
}

fn extent(buffer: &Buffer) -> usize {
    buffer.pool().extent(buffer.index())
}

/// Bytes that a vectored operation moves; none for the others.
pub(crate) fn bytes(operation: &Operation) -> u32 {
    several(operation).iter().map(|buffer| extent(buffer) as u32).fold(0, u32::saturating_add)
}

/// The vectors that preadv(2) and its like take: each buffer whole.
pub(crate) fn vectors(operation: &Operation) -> Box<[libc::iovec]> {
    let vector = |buffer: &Buffer| libc::iovec {
        iov_base: buffer.pool().address(buffer.index()).as_ptr().cast(),
        iov_len: extent(buffer),
    };
    several(operation).iter().map(vector).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    #[test]
    fn rare_requests_end_once_with_their_buffers_and_tags() {
        let pool = Pool::new(3, 512).unwrap();
        let mut flights = RareFlights::new();
        let buffers: Vec<Buffer> = std::iter::from_fn(|| pool.acquire()).collect();
        let vectored = Request::read_vectored(buffers, 0).tagged(7);
        let extra = vectors(&vectored.operation);
        assert_eq!(extra.iter().map(|vector| vector.iov_len).collect::<Vec<_>>(), [512; 3]);
        let (first, _) = flights.start(vectored, extra);
        let (second, _) = flights.start(Request::flush().tagged(8), Box::default());
        assert_eq!((first, second), (RARE, RARE | 1));
        let completion = flights.end(first).unwrap().complete(Ok(1536));
        assert!(flights.end(first).is_none() && flights.end(RARE | 9).is_none());
        assert_eq!((completion.tag, completion.result, pool.available()), (7, Ok(1536), 0));
        drop(completion);
        assert_eq!(pool.available(), 3);
        // Its place is used again.
        assert_eq!(flights.start(Request::fsync(), Box::default()).0, RARE);
        assert!(flights.get_mut(second).is_some());
    }
}
