"""Programs of a run's roles (learner, actor, evaluator, replay), and flags."""
