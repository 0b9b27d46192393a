//! Study files, plan, runner, generators, settings and their restoring.
