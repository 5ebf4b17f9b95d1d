"""The path of an unroll: actor, queue, batches, learner, weights, loop."""
