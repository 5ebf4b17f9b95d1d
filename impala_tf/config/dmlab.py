"""Options of DeepMind Lab."""

import dataclasses

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class DmlabConfig(fields.Section):
  """Settings of DeepMind Lab (table D.3).

  Attributes:
    action_repeats: frames an action is held.
    height, width: size of an observation.
    renderer: 'software' needs no GPU, 'hardware' does.
    dataset_path: directory of the photographs that two psychlab levels show
      (brady_konkle_oliva2008), or 'dummy' for plain colours in their place;
      None: these levels are refused.
    level_cache_dir: directory of compiled maps, shared by all processes and
      kept between runs; it grows to 5 GB. None: each map is compiled anew.
    num_seeds: different episodes of each level in training. With few, maps come
      again and are cached. None: 2^31 - 1, as in the published code. Evaluation
      always draws from 2^31 - 1 others.
  """
  action_repeats: int = fields.option(
      4, at_least=1, unit='frames', source='table D.3')
  height: int = fields.option(
      72, at_least=36, unit='pixels', source='table D.3')
  width: int = fields.option(96, at_least=36, unit='pixels', source='table D.3')
  renderer: str = fields.option('software', choices=('software', 'hardware'))
  dataset_path: str | None = fields.option(None)
  level_cache_dir: str | None = fields.option('~/.cache/impala_tf/dmlab_maps')
  num_seeds: int | None = fields.option(
      None, at_least=1, at_most=2**31 - 1, unit='episodes',
      source='published code')
