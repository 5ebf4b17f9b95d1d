"""Reports on runs: scores and learning curves, level by level."""
