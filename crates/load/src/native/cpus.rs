//! `cpus_allowed`: the processors that every job may use, as fio's policy `shared`.

const MOST: usize = 8 * size_of::<libc::cpu_set_t>();

/// The processors that this process may use; none if the kernel does not tell.
pub fn allowed() -> Vec<u32> {
    let all: Vec<u32> = (0..MOST as u32).collect();
    match affinity() {
        Some(set) => all.into_iter().filter(|cpu| has(&set, *cpu)).collect(),
        None => Vec::new(),
    }
}

/// The first of `cpus` that this process may not use.
pub fn forbidden(cpus: &[u32]) -> Option<u32> {
    let set = affinity()?;
    cpus.iter().copied().find(|cpu| !has(&set, *cpu))
}

fn affinity() -> Option<libc::cpu_set_t> {
    // SAFETY: a `cpu_set_t` is plain bits, for which zero is a valid value; the call fills the set, which is
    // ours.
    let (allowed, done) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let done = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        (set, done)
    };
    (done == 0).then_some(allowed)
}

fn has(set: &libc::cpu_set_t, cpu: u32) -> bool {
    // SAFETY: the first condition keeps the bit within the set.
    (cpu as usize) < MOST && unsafe { libc::CPU_ISSET(cpu as usize, set) }
}

/// Keeps the calling thread on `cpus`; an empty list allows all.
pub fn keep_to(cpus: &[u32]) -> Result<(), String> {
    if cpus.is_empty() {
        return Ok(());
    }
    if let Some(cpu) = forbidden(cpus) {
        return Err(format!("cpus_allowed names cpu {cpu}, which this process may not use"));
    }
    // SAFETY: the set is ours, every `cpu` is within its bits as `forbidden` has seen, and the call reads the
    // set.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu as usize, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err("the processors of cpus_allowed cannot be used".to_owned()) }
}
