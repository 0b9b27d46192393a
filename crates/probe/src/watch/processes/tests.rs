//! Tests of who belongs to a program, and of what is counted of it.

use super::*;
use proptest::prelude::*;
use std::fs;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Tree {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("proc")).unwrap();
        Tree(tree)
    }

    fn root(&self) -> Root {
        Root::new(self.0.path()).unwrap()
    }

    fn process(&self, pid: i32, parent: i32, user: u64, children: u64, read_bytes: u64) {
        let folder = self.0.path().join(format!("proc/{pid}"));
        fs::create_dir_all(&folder).unwrap();
        let stat = format!("{pid} (a b) S {parent} 1 1 0 0 0 0 0 3 2 {user} 0 {children} 0 20 0 1 0 99 0\n");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("io"), format!("rchar: 9\nread_bytes: {read_bytes}\n")).unwrap();
    }

    fn ends(&self, pid: i32) {
        fs::remove_dir_all(self.0.path().join(format!("proc/{pid}"))).unwrap();
    }
}

#[test]
fn what_a_child_leaves_to_its_parent_counts_once_and_what_it_leaves_to_nobody_counts_too() {
    let tree = Tree::new();
    tree.process(10, 1, 5, 0, 100);
    tree.process(11, 10, 7, 0, 200);
    // A stranger, and one that this program adopted.
    tree.process(12, 1, 50, 0, 5_000);
    tree.process(13, 3, 1, 0, 1_000);
    let mut processes = Processes::new(of(10, Some(3)), 1);
    let first = processes.look(&tree.root());
    assert_eq!((first.processes, first.user_ns, first.major_faults), (3, 13, 15));
    assert_eq!(first.io.unwrap().read_bytes, 1_300);
    tree.ends(11);
    tree.process(10, 1, 5, 9, 302);
    tree.ends(13);
    let second = processes.look(&tree.root());
    assert_eq!((second.processes, second.user_ns), (1, 15));
    assert_eq!(second.io.unwrap().read_bytes, 1_302);
    let delta = between(&first, &second);
    assert_eq!((delta.user_ns, delta.io.unwrap().read_bytes), (2, 2));
}

fn of(program: i32, adopted_by: Option<i32>) -> Scope {
    Scope::Tree(Family { program, adopted_by, ..Family::default() })
}

#[test]
fn servers_count_too_and_children_from_before_do_not() {
    let tree = Tree::new();
    tree.process(3, 1, 0, 0, 0);
    tree.process(10, 3, 5, 0, 0);
    // A server with a child of its own, and a meter that was started before.
    tree.process(20, 1, 7, 0, 100);
    tree.process(21, 20, 8, 0, 0);
    tree.process(15, 3, 90, 0, 0);
    let mut program = Family { program: 10, servers: vec![20], ..Family::default() };
    program.adopted_by = Some(3);
    program.strangers = children_of(&tree.root(), 3);
    program.strangers.remove(&10);
    let mut processes = Processes::new(Scope::Tree(program), 1);
    let counts = processes.look(&tree.root());
    assert_eq!((counts.processes, counts.user_ns), (3, 20));
    assert_eq!((processes.pids(), processes.own_pids()), (vec![10, 20, 21], vec![10]));
    // What a server leaves behind is still its own.
    tree.process(22, 21, 0, 0, 0);
    processes.look(&tree.root());
    tree.ends(21);
    tree.process(22, 3, 0, 0, 0);
    tree.process(11, 3, 0, 0, 0);
    processes.look(&tree.root());
    assert_eq!(processes.own_pids(), [10, 11]);
}

/// As a kernel does that hides the end of a process: a folder in the file's place is an error for root too.
fn hide(tree: &Tree, pid: i32) {
    let io = tree.0.path().join(format!("proc/{pid}/io"));
    fs::remove_file(&io).unwrap();
    fs::create_dir(&io).unwrap();
}

#[test]
fn what_a_process_moved_after_its_end_was_hidden_comes_by_the_one_who_waits() {
    let tree = Tree::new();
    tree.process(10, 1, 5, 0, 100);
    // A server and its work before.
    tree.process(20, 1, 5, 0, 1_000);
    let family = Family { program: 10, servers: vec![20], ..Family::default() };
    let mut processes = Processes::new(Scope::Tree(family), 1);
    let first = processes.look(&tree.root());
    assert_eq!((first.disk_bytes(), first.whole_disk_bytes), (Some([1_100, 0]), None));
    hide(&tree, 10);
    tree.process(20, 1, 5, 0, 1_500);
    let second = processes.look(&tree.root());
    assert_eq!(second.io.unwrap().read_bytes, 1_600, "what was seen of it stays");
    assert_eq!(second.whole_disk_bytes, None);
    assert_eq!((processes.has_old_io(10), processes.has_old_io(20)), (true, false));
    processes.ended(10, [512, 4096]);
    processes.ended(20, [9_999, 9_999]);
    tree.ends(10);
    let last = processes.look(&tree.root());
    assert_eq!(last.whole_disk_bytes, Some([2_012, 4096]));
    let since = between(&first, &last);
    assert_eq!((since.disk_bytes(), since.io.unwrap().read_bytes), (Some([912, 4096]), 500));
}

#[test]
fn a_child_that_is_gone_between_two_files_counts_once() {
    let tree = Tree::new();
    tree.process(10, 1, 5, 0, 100);
    tree.process(11, 10, 7, 0, 200);
    let mut processes = Processes::new(of(10, None), 1);
    processes.look(&tree.root());
    // Its parent has waited for it after `stat` was read.
    tree.process(10, 1, 5, 9, 300);
    fs::remove_file(tree.0.path().join("proc/11/io")).unwrap();
    assert_eq!(processes.look(&tree.root()).io.unwrap().read_bytes, 300);
}

#[test]
fn a_member_whose_parent_has_ended_stays_a_member() {
    let tree = Tree::new();
    tree.process(10, 1, 5, 0, 0);
    tree.process(11, 10, 7, 0, 0);
    let mut processes = Processes::new(of(10, None), 1);
    assert_eq!(processes.look(&tree.root()).processes, 2);
    tree.ends(10);
    tree.process(11, 1, 8, 0, 0);
    tree.process(14, 11, 1, 0, 0);
    assert_eq!(processes.look(&tree.root()).processes, 2);
    assert_eq!(processes.pids(), [11, 14]);
}

#[test]
fn processes_of_nested_groups_are_found() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("inner")).unwrap();
    fs::write(folder.path().join("cgroup.procs"), "4\n7\n").unwrap();
    fs::write(folder.path().join("inner/cgroup.procs"), "9\n").unwrap();
    assert_eq!(processes_in(folder.path()), BTreeSet::from([4, 7, 9]));
}

#[test]
fn threads_of_posix_aio_block_all_signals_and_others_do_not() {
    for (mask, is_one) in
        [("fffffffe7ffbfeff", true), ("0000000000000000", false), ("0000000000010000", false)]
    {
        let mask = u64::from_str_radix(mask, 16).unwrap();
        assert_eq!(mask & BLOCKABLE == BLOCKABLE, is_one, "{mask:x}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in "(rchar|syscr|read_bytes): ?[0-9]{0,22}\n|\\PC*") {
        process_io(&text);
        stat(&text);
    }
}
