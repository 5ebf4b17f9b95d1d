"""Options of the run as a whole."""

import dataclasses

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class ExperimentConfig(fields.Section):
  """The run as a whole.

  Attributes:
    algorithm: 'impala'; 'impala_popart': values normalised by level; 'laser':
      much replay; 'a3c'; others in `algorithms.table`; or a name that your file
      registers (docs/networks_and_algorithms.md).
    seed: seed of parameters, environments and action sampling.
    total_frames: environment frames that are learned from.
    stop_at_return: the run ends before `total_frames` at this
      `best_episode_return`, a mean of 100 full episodes; None: never.
    in_process: actor and learner take turns in one process: slow, and the same
      numbers from the same seed every time.
    checkpoint_interval_secs: time between two checkpoints, the most learning
      that a kill can lose.
    checkpoints_to_keep: newest checkpoints on disk.
    log_interval_secs: time between progress lines, and between rows of
      `metrics.jsonl` unless actor and learner take turns in one process.
    log_interval_updates: rows come at multiples of this number of updates.
      With `in_process` every multiple has a row, reproducibly.
    evaluation_episodes: full games that an evaluator plays of each level.
    evaluation_max_frames: environment frames after which an evaluated game is
      cut off and counts with its return so far, in `evaluate`, too.
    evaluation_interval_secs: least time between the starts of evaluations.
    evaluation_video_interval_secs: least time from one video of an evaluated
      game, of the first level, to the next; None for no videos.
  """
  algorithm: str = fields.option('impala')
  seed: int = fields.option(1, at_least=0)
  total_frames: int = fields.option(
      200_000_000, at_least=1, source='section 5.3.2')
  stop_at_return: float | None = fields.option(None)
  in_process: bool = fields.option(False)
  checkpoint_interval_secs: float = fields.option(120.0, above=0)
  checkpoints_to_keep: int = fields.option(3, at_least=2, unit='checkpoints')
  log_interval_secs: float = fields.option(5.0, above=0)
  log_interval_updates: int = fields.option(1, at_least=1)
  evaluation_episodes: int = fields.option(20, at_least=1, unit='episodes')
  evaluation_max_frames: int = fields.option(108_000, at_least=1)
  evaluation_interval_secs: float = fields.option(300.0, above=0)
  evaluation_video_interval_secs: float | None = fields.option(None, above=0)
