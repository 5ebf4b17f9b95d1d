"""The 57 Atari games: level names, reference scores, the paper's scores.

The scores belong to the protocol of Espeholt et al. 2018, table C.1: up to 30
no-ops at the start of a game, raw rewards.

The columns of table C.1 give all medians of table 4, but not its means (`note`
below): they give 179.4%, 707.4% and 1592.5%. Most likely two random scores
differ. The means are the paper's with 0 in Video Pinball and -18.55 in Double
Dunk, which is rounded to -18.6 here. Video Pinball alone makes up 692% of those
1592.5%: prefer the median. We keep its 16256.9, as DQN Zoo does.
"""

from impala_tf.suites import suite as suite_lib

_RANDOM, _HUMAN, _PAPER = suite_lib.read_scores('atari57_scores.csv', 'atari')
_LEVELS = tuple(_RANDOM)  # 'atari/pong', in alphabetical order.

SUITE = suite_lib.Suite(
    name='atari57',
    title='Atari-57',
    levels=_LEVELS,
    train_levels=_LEVELS,
    random=_RANDOM,
    human=_HUMAN,
    # Table C.1, in its order. ACKTR was not scored on 13 games.
    paper=_PAPER,
    published={
        'A3C, shallow, experts': {'median': 0.549, 'mean': 2.859},
        'A3C, deep, experts': {'median': 1.179, 'mean': 5.036},
        'Reactor, experts': {'median': 1.87},
        'IMPALA, shallow, experts': {'median': 0.932, 'mean': 4.664},
        'IMPALA, deep, experts': {'median': 1.918, 'mean': 9.576},
        'IMPALA, deep, multi-task': {'median': 0.597, 'mean': 1.769},
    },
    published_in='table 4',
    episodes=200,  # Section 5.3.2.
    decimals=2,
    note='Table 4 of the paper has means of 176.9%, 466.4% and 957.6% for its '
    'multi-task, shallow and deep agents, most likely from other random scores '
    'in two games, see `impala_tf/suites/atari57.py`. Medians agree.')
