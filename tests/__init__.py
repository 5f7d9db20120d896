"""Everything that is asserted about Chrono."""
