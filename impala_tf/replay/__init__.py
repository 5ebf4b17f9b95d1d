"""Ways to replay unrolls: uniformly, by priorities, by episodes, shared."""
