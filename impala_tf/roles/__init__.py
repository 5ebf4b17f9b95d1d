"""Roles: learner, actor, evaluator, replay, or a whole run in one process."""
