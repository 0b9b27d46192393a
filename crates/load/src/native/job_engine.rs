//! The engine of a job: of a path, or one that chooses its way.

use iopj_auto::Auto;
use iopj_engine::{AnyEngine, Visitor};

/// The engine of a job. Its loop is made for the engine in either case, so what choosing costs can be
/// measured: a call through a table would cost twice as much.
#[expect(clippy::large_enum_variant, reason = "there is one a job, which is moved once")]
pub enum JobEngine {
    /// Of one path.
    Fixed(AnyEngine),
    /// One that chooses its way.
    Auto(Box<Auto>),
}

impl JobEngine {
    /// Calls the visitor with the engine.
    pub(crate) fn visit<V: Visitor>(self, visitor: V) -> V::Output {
        match self {
            JobEngine::Fixed(engine) => engine.visit(visitor),
            JobEngine::Auto(engine) => visitor.visit(*engine),
        }
    }
}

impl From<AnyEngine> for JobEngine {
    fn from(engine: AnyEngine) -> JobEngine {
        JobEngine::Fixed(engine)
    }
}

impl From<Auto> for JobEngine {
    fn from(engine: Auto) -> JobEngine {
        JobEngine::Auto(Box::new(engine))
    }
}
