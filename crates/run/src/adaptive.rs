//! The adaptive engines of a run: the policies that they follow, what their target has, and how jobs open
//! them.

use crate::error::RunError;
use iopj_auto::{Aim, Auto, AutoBuilder, Policy, Provenance, Way, available};
use iopj_core::{AutoPath, IoPath, PolicyName};
use iopj_engine::check::{Availability, check};
use iopj_engine::{EngineError, KernelCpus, Pool, Target};
use iopj_load::native::JobEngine;
use iopj_study::plan::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The state of each way that a target may have.
type States = Vec<(Way, Availability)>;

/// What the adaptive engines of a run need to know.
#[derive(Debug, Default)]
pub(crate) struct Adaptive {
    policies: BTreeMap<PolicyName, (String, Policy)>,
    /// Policies of another machine, kernel or drive are followed, too: all, or those that the store which is
    /// continued followed.
    anyway: bool,
    followed: BTreeSet<PolicyName>,
    /// Those that are, with the differences.
    elsewhere: Mutex<BTreeMap<PolicyName, String>>,
    /// The state of each way, by target and by whether it was taken: each is tried once in a run or, over
    /// fabrics, on each connection, because a ring that is opened and closed leaves its threads for a while.
    ways: Mutex<HashMap<(PathBuf, bool), States>>,
}

/// The name of a policy's text among the facts of a store.
fn fact_of(name: &PolicyName) -> String {
    format!("policy.{name}")
}

/// The name of what a policy that is followed anyway differs in.
fn difference_of(name: &PolicyName) -> String {
    format!("policy.{name}.anyway")
}

impl Adaptive {
    /// Reads the policies that cells follow: from the facts of a store that is continued, else their files.
    /// Those of another machine, kernel or drive are refused later, unless they are followed `anyway`, or the
    /// store did.
    ///
    /// # Errors
    /// A file cannot be read, or is no policy.
    pub(crate) fn of(
        cells: &[Cell],
        known: &BTreeMap<String, String>,
        anyway: bool,
    ) -> Result<Adaptive, RunError> {
        let far = cells.iter().find_map(|cell| {
            let transport = cell.fabric.as_ref()?.transport;
            let rule = cell.path.auto().filter(|rule| rule.policy().is_some())?;
            transport.is_on_target().then_some((rule, transport))
        });
        if let Some((rule, transport)) = far {
            return RunError::refuse(format!(
                "{}: over transport `{transport}` the target host does the I/O, and the policy is of this \
                 host: write auto or auto:cpu, or leave that transport out",
                IoPath::Auto(rule)
            ));
        }
        let kinds = cells.iter().flat_map(Cell::kinds);
        let rules: Vec<AutoPath> = kinds.filter_map(|kind| kind.path.auto()).collect();
        let mut policies = BTreeMap::new();
        for name in rules.iter().filter_map(AutoPath::policy) {
            if !policies.contains_key(name) {
                let text = known.get(&fact_of(name)).map_or_else(|| read(name), |text| Ok(text.clone()))?;
                let policy = text.parse().map_err(|error| RunError::Refused(format!("{name}: {error}")))?;
                policies.insert(*name, (text, policy));
            }
        }
        let followed =
            policies.keys().filter(|name| known.contains_key(&difference_of(name))).copied().collect();
        Ok(Adaptive { policies, anyway, followed, ..Adaptive::default() })
    }

    /// The policies' texts, which the store keeps, and in what those that are followed anyway differ.
    pub(crate) fn provenance(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let texts = self.policies.iter().map(|(name, (text, _))| (fact_of(name), text.clone()));
        texts.chain(
            self.elsewhere().into_iter().map(|(name, differences)| (difference_of(&name), differences)),
        )
    }

    /// What readers of the store must know of policies that are followed anyway.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let warning = |(name, differences)| {
            format!("auto:{name} follows a policy that was made elsewhere (--anyway): {differences}")
        };
        self.elsewhere().into_iter().map(warning)
    }

    fn elsewhere(&self) -> BTreeMap<PolicyName, String> {
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn follows_anyway(&self, name: Option<&PolicyName>) -> bool {
        self.anyway || name.is_some_and(|name| self.followed.contains(name))
    }

    /// Whether the policy of an adaptive engine by this rule can be followed on a target that is open through
    /// the kernel, which knows what drive it is, and that is taken then if `is_bypass`.
    ///
    /// # Errors
    /// The policy is of another machine, kernel or drive, or there is none where the rule needs one.
    pub(crate) fn check_policy(
        &self,
        rule: AutoPath,
        target: &Target,
        is_bypass: bool,
    ) -> Result<Availability, RunError> {
        let refuse = |why: String| RunError::refuse(format!("{}: {why}", IoPath::Auto(rule)));
        let policy = self.policy(rule).unwrap_or_default();
        if let Err(error) = policy.check() {
            return match rule {
                AutoPath::IosPerJoule => refuse(
                    "nothing is known of the joules of an I/O: write auto:cpu, which needs no meter, or \
                     auto:FILE.toml, a policy that `iopj policy derive` made of a store with joules of the \
                     whole machine"
                        .to_owned(),
                ),
                _ => refuse(error.to_string()),
            };
        }
        let here = Provenance::here(target);
        let differences = policy.provenance.map_or_else(Vec::new, |from| from.differences(&here));
        if let Some(name) = rule.policy().filter(|_| !differences.is_empty()) {
            let differences = differences.join(", and ");
            if !self.follows_anyway(Some(name)) {
                return refuse(format!(
                    "the policy was made elsewhere: {differences}; derive one from a store of this machine \
                     and drive, or follow it in a new store by --anyway"
                ));
            }
            self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner).insert(*name, differences);
        }
        let mut named = policy.cells.iter().flat_map(|cell| &cell.ways).map(|figures| figures.way).peekable();
        if named.peek().is_some() && named.all(|way| way.is_bypass() != is_bypass) {
            let (whose, trials, option) = match is_bypass {
                true => ("of a drive that was taken", "nvme-user", "leave --take-device out"),
                false => ("of the kernel's", "io_uring", "take the drive by --take-device"),
            };
            return Ok(Availability::Unavailable {
                reason: format!("the policy has no way {whose}"),
                remedy: format!("derive it from a store with `{trials}` trials, or {option}"),
            });
        }
        Ok(Availability::Available { notes: Vec::new() })
    }

    /// Whether the ways that an adaptive engine by this rule needs work on a target.
    pub(crate) fn check_ways(&self, rule: AutoPath, target: &Target) -> Availability {
        let states = self.states(target);
        for way in [Some(Way::fallback(target.controller().is_some())), rule.pinned()].into_iter().flatten() {
            // Those of a drive that was taken, or that is not, were not tried.
            let tried = states.iter().find(|(other, _)| *other == way && !way.is_bypass());
            let state = tried.map_or_else(|| check(way.path(), target), |(_, state)| state.clone());
            if let Availability::Unavailable { reason, remedy } = state {
                return Availability::Unavailable { reason: format!("{way}: {reason}"), remedy };
            }
        }
        Availability::Available { notes: Vec::new() }
    }

    /// Opens the engine of a job.
    ///
    /// # Errors
    /// As [`AutoBuilder::open`].
    pub(crate) fn open(
        &self,
        rule: AutoPath,
        seed: u64,
        target: &Target,
        pool: &Pool,
        iodepth: u32,
        cpus: KernelCpus,
    ) -> Result<JobEngine, EngineError> {
        if let Some(name) = rule.policy().filter(|name| !self.policies.contains_key(*name)) {
            return Err(EngineError::unsupported(format!("this host does not have the policy {name}")));
        }
        let states = self.states(target);
        let ways: Vec<Way> =
            states.iter().filter(|(_, state)| state.is_available()).map(|(way, _)| *way).collect();
        let builder = self.builder(rule, seed).among(&ways).iodepth(iodepth).cpus(cpus);
        Ok(builder.open(target, pool)?.into())
    }

    fn builder(&self, rule: AutoPath, seed: u64) -> AutoBuilder {
        let builder = Auto::builder().seed(seed);
        match rule {
            AutoPath::Random => builder.random_switching(seed),
            AutoPath::Pinned(way) => builder.pinned(way),
            _ => {
                let builder = builder.policy(self.policy(rule).unwrap_or_default());
                if self.follows_anyway(rule.policy()) { builder.anyway() } else { builder }
            }
        }
    }

    /// The policy that a rule follows; none of the baselines.
    fn policy(&self, rule: AutoPath) -> Option<Policy> {
        let of = |aim| Some(Policy { aim, ..Policy::default() });
        match rule {
            AutoPath::Latency => of(Aim::Latency),
            AutoPath::Cpu => of(Aim::Cpu),
            AutoPath::IosPerJoule => of(Aim::IosPerJoule),
            AutoPath::Policy(name) => self.policies.get(&name).map(|(_, policy)| policy.clone()),
            AutoPath::Random | AutoPath::Pinned(_) => None,
        }
    }

    /// What targets have is found out anew: another connection may have other queues, by the same name.
    pub(crate) fn forget_ways(&self) {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn states(&self, target: &Target) -> States {
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        let side = (target.path().to_owned(), target.controller().is_some());
        ways.entry(side).or_insert_with(|| available(target)).clone()
    }
}

fn read(name: &PolicyName) -> Result<String, RunError> {
    let file = Path::new(name.as_str());
    let unread = |why: String| {
        RunError::Refused(format!(
            "the policy `{name}` of auto:{name} cannot be read ({why}): name a file that `iopj policy \
             derive` wrote, from the folder that iopj is started in"
        ))
    };
    iopj_auto::policy_text(file).map_err(|error| unread(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_study::{Study, plan};

    const POLICY: &str = "aim = \"cpu\"\n[provenance]\nkernel = \"0.1\"\n";

    fn cells(paths: &str) -> Vec<Cell> {
        let text = format!("name = \"s\"\npaths = [{paths}]\n[[workload]]\nrw = \"randread\"\n");
        plan::cells(&Study::parse(&text, "s.toml").unwrap(), &[]).unwrap().0
    }

    fn target(folder: &Path) -> Target {
        let file = folder.join("data");
        iopj_engine::target::make_file(&file, 1 << 20, &mut |_| true).unwrap();
        Target::open(&file).unwrap()
    }

    #[test]
    fn a_policy_of_another_kernel_is_refused_with_the_difference() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let known = BTreeMap::from([("policy.p.toml".to_owned(), POLICY.to_owned())]);
        let adaptive = Adaptive::of(&cells("\"auto:p.toml\""), &known, false).unwrap();
        assert_eq!(adaptive.provenance().collect::<BTreeMap<_, _>>(), known, "its text is kept");
        let rule = "auto:p.toml".parse::<IoPath>().unwrap().auto().unwrap();
        let target = target(folder.path());
        let message = adaptive.check_policy(rule, &target, false).unwrap_err().to_string();
        let begins = "auto:p.toml: the policy was made elsewhere: its kernel is `0.1`, here it is `";
        assert!(message.starts_with(begins), "{message}");
        assert!(
            message.ends_with("of this machine and drive, or follow it in a new store by --anyway"),
            "{message}"
        );
        let own = adaptive.check_policy(AutoPath::Cpu, &target, true).unwrap();
        assert!(own.is_available(), "{own:?}");
        let message = adaptive.check_policy(AutoPath::IosPerJoule, &target, false).unwrap_err().to_string();
        assert!(message.contains("write auto:cpu, which needs no meter"), "{message}");
    }

    #[test]
    fn a_policy_of_another_kernel_is_followed_anyway_and_the_store_says_so() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let (cells, target) = (cells("\"auto:p.toml\""), target(folder.path()));
        let rule = "auto:p.toml".parse::<IoPath>().unwrap().auto().unwrap();
        let known = BTreeMap::from([("policy.p.toml".to_owned(), POLICY.to_owned())]);
        let adaptive = Adaptive::of(&cells, &known, true).unwrap();
        assert!(adaptive.check_policy(rule, &target, false).unwrap().is_available());
        let facts: BTreeMap<String, String> = adaptive.provenance().collect();
        let differences = &facts["policy.p.toml.anyway"];
        assert!(differences.starts_with("its kernel is `0.1`, here it is `"), "{differences}");
        let warning = format!("follows a policy that was made elsewhere (--anyway): {differences}");
        assert_eq!(adaptive.warnings().collect::<Vec<_>>(), [format!("auto:p.toml {warning}")]);
        let pool = Pool::new(1, 4096).unwrap();
        let open = |adaptive: &Adaptive| {
            adaptive.open(rule, 1, &target, &pool, 1, KernelCpus::default()).map(|_| ())
        };
        open(&adaptive).unwrap();
        // A run that is continued follows it without being told again.
        let adaptive = Adaptive::of(&cells, &facts, false).unwrap();
        assert!(adaptive.check_policy(rule, &target, false).unwrap().is_available());
        open(&adaptive).unwrap();
        assert!(open(&Adaptive::of(&cells, &known, false).unwrap()).is_err());
    }

    #[test]
    fn a_policy_is_left_out_where_none_of_its_ways_can_be() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let target = target(folder.path());
        let state = |ways: &[&str], is_bypass| {
            let ways: String = ways.iter().map(|way| format!("{{ way = \"{way}\" }}, ")).collect();
            let cell = format!("[[cell]]\nop = \"read\"\nsize = 4096\nin_flight = 1\nways = [{ways}]\n");
            let known = BTreeMap::from([("policy.p.toml".to_owned(), cell)]);
            let adaptive = Adaptive::of(&cells("\"auto:p.toml\""), &known, false).unwrap();
            let rule = "auto:p.toml".parse::<IoPath>().unwrap().auto().unwrap();
            match adaptive.check_policy(rule, &target, is_bypass).unwrap() {
                Availability::Unavailable { reason, remedy } => format!("{reason}; {remedy}"),
                Availability::Available { .. } => String::new(),
            }
        };
        let (kernel, user) = ("posix-sio/syscall/interrupt", "nvme-user/doorbell/hybrid");
        assert_eq!([state(&[kernel], false), state(&[user], true)], ["", ""]);
        assert_eq!([state(&[kernel, user], false), state(&[kernel, user], true)], ["", ""]);
        assert_eq!(
            [state(&[kernel], true), state(&[user], false)],
            [
                "the policy has no way of a drive that was taken; derive it from a store with `nvme-user` \
                 trials, or leave --take-device out",
                "the policy has no way of the kernel's; derive it from a store with `io_uring` trials, or \
                 take the drive by --take-device"
            ]
        );
    }

    #[test]
    fn a_way_of_a_drive_that_was_not_taken_is_left_out_with_the_remedy() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let target = target(folder.path());
        let rule = "auto:nvme-user/doorbell/poll".parse::<IoPath>().unwrap().auto().unwrap();
        let state = Adaptive::default().check_ways(rule, &target);
        let Availability::Unavailable { reason, remedy } = state else { panic!("{state:?}") };
        assert!(reason.starts_with("nvme-user/doorbell/poll: the target has no NVMe controller"), "{reason}");
        assert!(remedy.contains("--take-device"), "{remedy}");
    }

    #[test]
    fn ways_are_tried_once_on_a_target_and_again_on_another_connection() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let (adaptive, target) = (Adaptive::default(), target(folder.path()));
        let found = adaptive.states(&target);
        let other = vec![(Way::Interrupt, found[0].1.clone())];
        adaptive.ways.lock().unwrap().insert((target.path().to_owned(), false), other.clone());
        assert_eq!(adaptive.states(&target), other, "what is known is not tried again");
        adaptive.forget_ways();
        assert_eq!(adaptive.states(&target), found);
    }

    #[test]
    fn a_policy_that_is_missing_or_none_is_refused_by_name() {
        let of = |paths: &str, known: &str| {
            let known = BTreeMap::from([("policy.no/p.toml".to_owned(), known.to_owned())]);
            Adaptive::of(&cells(paths), &known, false).unwrap_err().to_string()
        };
        let message = of("\"auto:missing.toml\"", "");
        assert!(
            message.contains("the policy `missing.toml` of auto:missing.toml cannot be read (No such file")
        );
        let message = of("\"auto:no/p.toml\"", "aim = \"speed\"");
        assert!(message.starts_with("no/p.toml: the policy cannot be read"), "{message}");
    }
}
