//! Analysis of records and their rendering as tables.
