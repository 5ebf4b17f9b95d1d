"""Options of the replay."""

import dataclasses

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class ReplayConfig(fields.Section):
  """Learning again from old unrolls (section 5.2.2).

  Attributes:
    replay_fraction: share of each batch that is sampled from the replay, a
      whole number of unrolls; 0 for none. Replayed ones do not count as frames.
    pacing_unrolls: new unrolls that enter the replay, and count as frames, for
      each update if all are replayed (`replay_fraction` is 1); else None.
    capacity_unrolls: unrolls that the replay holds; the oldest leave it first.
    sampling: 'unrolls', all equally likely; 'episodes', all equally likely,
      then their unrolls in order; or 'priorities', by the critic's loss.
    episode_unrolls: most unrolls in a sampled episode; longer ones are cut. The
      replay holds `capacity_unrolls` / `episode_unrolls` episodes of any
      length, so choose no more than the longest episode needs.
    core_state: memory at the start of a replayed unroll: 'stored' by the actor,
      or 'recomputed' by the newest parameters. The latter is done from the
      episode's start on, and needs sampling by episodes.
    priority_exponent: alpha; P(unroll) is proportional to its loss**alpha.
    priority_correction: beta; updates are weighted by 1 / P**beta.
    survives_resume: write the replay with every checkpoint, so that a resumed
      run has it again. It takes up to twice the room in memory on disk.
  """
  replay_fraction: float = fields.option(
      0.0, at_least=0, at_most=1, source='section 5.2.2')
  pacing_unrolls: int | None = fields.option(
      None, at_least=1, source='Schmitt et al. 2020, figure 2')
  capacity_unrolls: int = fields.option(10_000, at_least=1, source='table D.3')
  sampling: str = fields.option(
      'unrolls', choices=('unrolls', 'episodes', 'priorities'),
      source='Schmitt et al. 2020, supplement 1.2')
  episode_unrolls: int = fields.option(32, at_least=1)
  core_state: str = fields.option('stored', choices=('stored', 'recomputed'),
                          source='Schmitt et al. 2020, supplement 1.2')
  priority_exponent: float = fields.option(
      0.6, at_least=0, source='Schaul et al. 2016, table 3')
  priority_correction: float = fields.option(
      1.0, at_least=0, at_most=1, source='Schmitt et al. 2020, supplement 1.2')
  survives_resume: bool = fields.option(False)
