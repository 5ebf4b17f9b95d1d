"""MiniGrid against the package's own observations."""

import dm_env
import gymnasium
import numpy as np
import pytest

from impala_tf.envs import minigrid
from impala_tf.envs import word_ids

FIRST, MID, LAST = dm_env.StepType


def _decode(observation):
  """Decodes one-hot vectors [..., 20] to the package's three numbers."""
  codes = np.split(observation, [11, 17], axis=-1)
  for code in codes:
    np.testing.assert_array_equal(code.sum(-1), 1)
  return np.stack([code.argmax(-1) for code in codes], -1)


@pytest.mark.parametrize('domain, prefix, name, num_missions', [
    ('minigrid', 'MiniGrid', 'DoorKey-5x5-v0', 1),
    ('minigrid', 'MiniGrid', 'MultiRoom-N2-S4-v0', 1),
    ('minigrid', 'MiniGrid', 'GoToDoor-5x5-v0', 5),
    ('babyai', 'BabyAI', 'GoToLocalS5N2-v0', 5)])
@pytest.mark.slow
def test_rows_and_missions_are_those_of_the_package(
    domain, prefix, name, num_missions):
  env = minigrid.MinigridEnvironment(
      name, 2, seed=3, domain=domain, instruction_length=16)
  assert env.level == f'{domain}/{name}'
  oracles = [gymnasium.make(f'{prefix}-{name}', disable_env_checker=True)
             for _ in range(2)]
  row = env.reset()
  seen = [oracle.reset(seed=3 + i)[0] for i, oracle in enumerate(oracles)]
  rng = np.random.default_rng(0)
  num_ended, was_truncated = 0, [False, False]
  missions = set()
  for _ in range(300):
    np.testing.assert_array_equal(
        _decode(row.observation), [s['image'] for s in seen])
    for instruction, mission in zip(env.instruction, (
        s['mission'] for s in seen)):
      ids = word_ids.word_ids(mission)
      assert instruction.tolist() == ids + [0] * (16 - len(ids))
      missions.add(mission)
    actions = rng.integers(7, size=2).astype(np.int32)
    row = env.step(actions)
    for i, (oracle, action) in enumerate(zip(oracles, actions)):
      if was_truncated[i]:
        seen[i], was_truncated[i] = oracle.reset()[0], False
        assert row.step_type[i] == FIRST and row.reward[i] == 0
        continue
      seen[i], reward, terminated, was_truncated[i], _ = oracle.step(action)
      if terminated:
        seen[i], was_truncated[i] = oracle.reset()[0], False
      num_ended += terminated or was_truncated[i]
      assert row.reward[i] == np.float32(reward)
      assert row.step_type[i] == (
          FIRST if terminated else LAST if was_truncated[i] else MID)
      assert row.discount[i] == (0 if terminated else 1)
  assert num_ended and len(missions) >= num_missions
