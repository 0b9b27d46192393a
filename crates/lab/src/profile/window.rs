//! The file that the plugin leaves for every window, as `plugin/window.c` describes it.

/// What is wrong with a window's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// It does not begin with the plugin's mark.
    #[error("it begins with other bytes")]
    Foreign,
    /// Its length is not what its header says.
    #[error("it is cut short, or longer than its header says")]
    Length,
}

/// What was executed at one address while a window was open, by all vCPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Virtual address of the instruction; 0 for all of user space together.
    pub address: u64,
    /// Executions; of a repeated string instruction its iterations.
    pub executed: u64,
    /// Loads from memory: accesses of up to 8 bytes, or what the emulator does in one access.
    pub loads: u64,
    /// Stores to memory, likewise.
    pub stores: u64,
}

/// The counts of one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The position of its trial in the plan.
    pub place: u32,
    /// Instructions executed by each vCPU.
    pub vcpus: Vec<u64>,
    /// Instructions at addresses that the plugin's table had no room for.
    pub no_room: u64,
    /// One record per address, user space first.
    pub records: Vec<Record>,
}

const MAGIC: &[u8; 8] = b"iopjwin1";
const RECORD_BYTES: usize = 32;

impl Window {
    /// Reads a window from the bytes of its file.
    pub fn parse(bytes: &[u8]) -> Result<Window, WindowError> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(WindowError::Foreign)?;
        let place = u32::from_le_bytes(take(&mut rest)?);
        let vcpus = u32::from_le_bytes(take(&mut rest)?);
        let length = u64::from_le_bytes(take(&mut rest)?);
        let no_room = u64::from_le_bytes(take(&mut rest)?);
        let expected = u128::from(vcpus) * 8 + u128::from(length) * RECORD_BYTES as u128;
        if rest.len() as u128 != expected {
            return Err(WindowError::Length);
        }
        let (vcpus, records) = rest.split_at(vcpus as usize * 8);
        let (vcpus, records) = (numbers(vcpus), numbers(records));
        let records = records.chunks_exact(4).map(|record| Record {
            address: record[0],
            executed: record[1],
            loads: record[2],
            stores: record[3],
        });
        Ok(Window { place, vcpus, no_room, records: records.collect() })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], WindowError> {
    let (bytes, more) = rest.split_first_chunk::<N>().ok_or(WindowError::Length)?;
    *rest = more;
    Ok(*bytes)
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(window: &Window) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(window.place.to_le_bytes());
        bytes.extend((window.vcpus.len() as u32).to_le_bytes());
        let records = window.records.iter().flat_map(|r| [r.address, r.executed, r.loads, r.stores]);
        let numbers = [window.records.len() as u64, window.no_room].into_iter();
        bytes.extend(numbers.chain(window.vcpus.iter().copied()).chain(records).flat_map(u64::to_le_bytes));
        bytes
    }

    prop_compose! {
        fn any_window()(place: u32, vcpus in prop::collection::vec(any::<u64>(), 0..5), no_room: u64,
                        records in prop::collection::vec(any::<[u64; 4]>(), 0..20)) -> Window {
            let record =
                |[address, executed, loads, stores]: [u64; 4]| Record { address, executed, loads, stores };
            let records = records.into_iter().map(record);
            Window { place, vcpus, no_room, records: records.collect() }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(window in any_window()) {
            prop_assert_eq!(Window::parse(&written(&window)), Ok(window));
        }

        #[test]
        fn a_window_of_another_length_is_refused(window in any_window(), at: prop::sample::Index) {
            let mut bytes = written(&window);
            bytes.truncate(at.index(bytes.len()));
            let error = if bytes.len() < MAGIC.len() { WindowError::Foreign } else { WindowError::Length };
            prop_assert_eq!(Window::parse(&bytes), Err(error));
            let mut longer = written(&window);
            longer.push(0);
            prop_assert_eq!(Window::parse(&longer), Err(WindowError::Length));
        }

        #[test]
        fn no_bytes_make_it_panic(
            head in prop::bool::ANY,
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let bytes = if head { [MAGIC.as_slice(), &bytes].concat() } else { bytes };
            let _ = Window::parse(&bytes);
        }
    }

    #[test]
    fn a_head_that_promises_more_than_memory_holds_is_refused() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([0xff; 24]);
        assert_eq!(Window::parse(&bytes), Err(WindowError::Length));
    }
}
