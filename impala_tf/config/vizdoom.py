"""Options of VizDoom."""

import dataclasses

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class VizdoomConfig(fields.Section):
  """Settings of VizDoom, which the paper does not have.

  Attributes:
    action_repeats: frames (35 are a second) an action is held.
    resolution: width x height in pixels at which Doom draws. The smallest is
      the fastest. Those of 16:9 have a wider field of view.
    subsample: n, to keep every n-th pixel of every n-th row: 2 makes 80 x 60 of
      160 x 120.
    game_variables: whether the scenario's numbers, such as health and
      ammunition, are observed beside the picture, in hundreds.
  """
  action_repeats: int = fields.option(
      4, at_least=1, unit='frames', source='Kempka et al. 2016')
  resolution: str = fields.option('160x120', unit='pixels', choices=(
      '160x120', '200x150', '256x144', '256x192', '320x180', '320x240',
      '400x225', '400x300', '512x288', '512x384', '640x360', '640x480'))
  subsample: int = fields.option(2, at_least=1, at_most=8, unit='pixels')
  game_variables: bool = fields.option(False)
