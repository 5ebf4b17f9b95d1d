"""Learning algorithms, one module each: `loss(agent, unroll, config)`."""
