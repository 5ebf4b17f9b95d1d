"""Warnings of runs that do not learn, made from the rows of `metrics.jsonl`."""

from impala_tf import config as config_lib
from impala_tf.runs import metrics

# Largest size of a clipped reward. Without clipping any size is possible; 1
# keeps small returns at the beginning from making every value look too large.
_LARGEST_REWARD = {
    'abs_one': 1., 'tanh_asymmetric': 5., 'soft_asymmetric': 5., 'none': 1.}
_UNIFORM, _COLLAPSED = 0.99, 0.005  # Shares of the largest entropy.
_MIN_UPDATES = 500  # Before, any policy may still be as it began.


class WarningSigns:
  """A check of rows that reports each sign of failed learning once."""

  def __init__(self, config: config_lib.Config):
    self._config = config
    self._since: dict[str, int] = {}  # Frames at which a sign appeared.
    self._reported: set[str] = set()
    self._largest_return = 0.

  def notice(self, row: metrics.Row) -> list[str]:
    """Returns a warning for each sign that this row is the first to confirm."""
    found = {}
    patience = self._config.experiment.total_frames / 10
    share = row.get('entropy_share')
    if share is not None and row['updates'] >= _MIN_UPDATES:
      for sign, is_there, advice in (
          ('chosen as if at random', share > _UNIFORM,
           'if rewards are small beside ImpalaConfig.entropy_cost, raise '
           'EnvironmentConfig.reward_scale'),
          ('hardly tried anything new', share < _COLLAPSED,
           'if the return is not as good as it can be, raise '
           'ImpalaConfig.entropy_cost or lower OptimizerConfig.learning_rate')):
        if not is_there:
          self._since.pop(sign, None)
        elif row['frames'] - self._since.setdefault(
            sign, row['frames']) >= patience:
          found[sign] = (
              f'the policy has {sign} for a tenth of the run (entropy '
              f'{row["entropy"]:.2g}): {advice} (docs/troubleshooting.md)')
    size, limit = row.get('value_size'), self._limit(row)
    if size is not None and limit is not None and size > limit:
      found['values'] = (
          f'values diverge ({size:.1g} on average, beyond any possible return):'
          ' if observations show the time limit, return `terminated`, not '
          '`truncated` (docs/own_environment.md); else '
          'lower OptimizerConfig.learning_rate')
    texts = [text for sign, text in found.items() if sign not in self._reported]
    self._reported.update(found)
    return texts

  def _limit(self, row: metrics.Row) -> float | None:
    """Returns the largest plausible size of values; None if not yet known."""
    impala = self._config.impala
    horizon = 1 / (1 - impala.discount)
    limit = 3 * _LARGEST_REWARD[impala.reward_clipping] * horizon
    if impala.reward_clipping != 'none':
      return limit
    self._largest_return = max(
        self._largest_return, abs(row.get('episode_return') or 0.))
    # A learner that was restarted has rows without episodes again.
    if not self._largest_return or 'episode_steps' not in row:
      return None
    # Beyond a time limit rewards are expected to go on as before.
    return max(limit, 10 * self._config.environment.reward_scale
               * self._largest_return
               * max(1., horizon / row['episode_steps']))
