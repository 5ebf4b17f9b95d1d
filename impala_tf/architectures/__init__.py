"""Who runs where: the loops of learner, actor, evaluator and of one process.

May import every other room but `sweeps`; only programs in `launch/` import it.
"""
