//! What is refused when an adaptive engine is opened: one message with the thing, the cause and the remedy.

use iopj_auto::{Aim, Auto, AutoBuilder, Policy, Provenance, Way, available};
use iopj_engine::check::Availability;
use iopj_engine::{Pool, Target};

fn target() -> (tempfile::TempDir, Target) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("data");
    iopj_engine::target::make_file(&path, 1 << 20, &mut |_| true).unwrap();
    let target = Target::open(&path).unwrap();
    (folder, target)
}

fn refusal(builder: AutoBuilder, target: &Target) -> String {
    let pool = Pool::new(2, 4096).unwrap();
    let error = builder.open(target, &pool).err().expect("it is refused").to_string();
    assert_eq!((pool.available(), pool.holders()), (2, 1), "nothing is left open");
    error
}

#[test]
fn a_policy_of_another_place_is_refused_with_the_difference_unless_it_is_wanted() {
    let (_folder, target) = target();
    let here = Provenance::here(&target);
    let elsewhere = Provenance { kernel: Some("2.6.32".to_owned()), ..here.clone() };
    let with =
        |provenance| Auto::builder().policy(Policy { provenance: Some(provenance), ..Policy::default() });
    let message = refusal(with(elsewhere.clone()), &target);
    let kernel = here.kernel.clone().unwrap();
    assert_eq!(
        message,
        format!(
            "the policy was made elsewhere: its kernel is `2.6.32`, here it is `{kernel}`; derive one here, \
             or take it anyway"
        )
    );
    let pool = Pool::new(1, 4096).unwrap();
    assert!(with(elsewhere).anyway().open(&target, &pool).is_ok());
    assert!(with(here).open(&target, &pool).is_ok());
}

#[test]
fn a_policy_is_checked_with_the_aim_that_it_gets() {
    let (_folder, target) = target();
    let message = refusal(Auto::builder().aim(Aim::IosPerJoule), &target);
    assert!(message.contains("the policy has none") && message.contains("choose `cpu`"), "{message}");
    let message = refusal(Auto::builder().policy(Policy { hysteresis: -1.0, ..Policy::default() }), &target);
    assert_eq!(message, "hysteresis = -1 of the policy is not between 0 and 1");
}

#[test]
fn a_way_that_is_not_here_is_refused_with_the_reason_and_the_remedy() {
    let (_folder, target) = target();
    let mut lacking = 0;
    for (way, state) in available(&target) {
        let Availability::Unavailable { reason, remedy } = state else { continue };
        lacking += 1;
        let message = refusal(Auto::builder().pinned(way), &target);
        assert_eq!(message, format!("{way} does not work here: {reason}; {remedy}"));
    }
    assert!(lacking > 0, "a file in a test has not every way");
    let message = refusal(Auto::builder().among(&[Way::Sio]), &target);
    assert!(
        message.ends_with("has no io_uring/syscall/interrupt: choose one of posix-sio/syscall/interrupt")
    );
    let message = refusal(Auto::builder().pinned(Way::UserPoll), &target);
    assert!(message.contains("has no nvme-user/doorbell/poll: choose one of io_uring/syscall"), "{message}");
}

#[test]
fn depths_that_cannot_be_are_refused() {
    let (_folder, target) = target();
    let message = refusal(Auto::builder().iodepth(0), &target);
    assert_eq!(message, "iodepth 0 is not between 1 and 32768");
    let message = refusal(Auto::builder().iodepth(2).pinned(Way::Sio), &target);
    assert!(message.ends_with("iodepth 2 was asked for: use iodepth 1"), "{message}");
}
