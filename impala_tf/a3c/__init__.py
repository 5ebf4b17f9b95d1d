"""A3C and its siblings: workers that share parameters without locks."""
