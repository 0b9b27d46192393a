//! The papers: their findings as claims that measured data decide, the figures that they print, and their
//! tables as layouts.

pub mod claims;
pub mod layouts;
pub mod loads_stores;
pub mod published;
