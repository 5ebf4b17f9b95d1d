"""A trained agent that acts on single observations or batches of them."""

from typing import Any

import dm_env
import numpy as np

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import acting
from impala_tf.agents import saved
from impala_tf.envs import environment
from impala_tf.envs import spaces
from impala_tf.envs import word_ids
from impala_tf.storage import checkpoint as checkpoint_lib


class TrainedPolicy:
  """A trained agent with its own memory.

  Its memory of the episode (the LSTM's state and the last action) is kept
  between calls of `act` and forgotten with `reset`.
  """

  def __init__(self, loaded: saved.LoadedAgent, deterministic: bool, seed: int,
               observation_space: Any = None):
    self.loaded = loaded
    self._must_convert = observation_space is not None
    self._action_box: environment.ActionBox | None = None
    try:
      self._convert = _make_converter(observation_space, loaded)
      if 'actions' in loaded.interface:
        # None: levels have other bounds, and take actions from -1 to 1.
        low, high, dtype = loaded.interface['actions'] or (-1, 1, 'float32')
        self._action_box = environment.ActionBox(
            np.array(low, dtype), np.array(high, dtype))
    except config_lib.UserError:
      raise
    except (AssertionError, AttributeError, KeyError, TypeError,
            ValueError) as error:
      raise config_lib.UserError(
          f"the agent's description is damaged ({error}); training that is "
          'resumed writes it again') from error
    self._deterministic = deterministic
    self._seed = seed
    self._policy: acting.Policy | None = None
    self._kind: str | None = None  # Of observations since `reset`.
    self._is_first = np.ones(1, bool)

  def act(self, observation: Any, *, reward: Any = None,
          instruction: Any = None, features: Any = None,
          action_mask: Any = None) -> int | np.ndarray:
    """Chooses the action for an observation, or for a batch of them.

    The first call after all of the memory was forgotten decides whether there
    is one environment or a batch of E; later calls must be alike. For a batch
    there are E of each argument, in a list or array.

    Args:
      observation: one that a Gymnasium environment gave in training, or one of
        `loaded.observation_spec` that was made of it.
      reward: reward of the last action, not clipped, but multiplied by
        `EnvironmentConfig.reward_scale`. Agents with an LSTM need it at all
        steps but the first of an episode; others ignore it.
      instruction: text for agents that read instructions, or word ids [E, L].
      features: numbers beside an image, [F], unless the environment's
        observation brings them along.
      action_mask: legal actions as in the environment's `info['action_mask']`,
        unless the observation brings them along.

    Returns:
      The action as `step` of a Gymnasium environment takes it. It is an int for
      one discrete action, else a NumPy array; with leading [E] for a batch.
      Discrete actions count from 0: add `action_space.start` if that is
      another. Continuous ones are clipped to their bounds, or to -1 and 1 if
      levels differ in them; not if `EnvironmentConfig.converted` is False.

    Raises UserError, in one line, if an argument does not fit.
    """
    if self._must_convert and features is not None:
      raise config_lib.UserError(
          'observations of observation_space bring their features along; '
          'leave features out')
    if self._convert is not None and features is None:
      try:
        observation, features, mask = _converted(self._convert, observation)
        action_mask = mask if action_mask is None else action_mask
      except spaces.SpaceError as error:
        # An array may be a converted observation.
        if self._must_convert or not isinstance(observation, np.ndarray):
          raise config_lib.UserError(
              'observation must be one of observation_space, or a list of '
              f'them: it {error}') from error
    batch, is_single = self._batched(observation)
    if is_single:  # A batch of one.
      reward, features, action_mask = (
          None if argument is None else [argument]
          for argument in (reward, features, action_mask))
    policy, kind = self._begun(len(batch), is_single)
    action = policy.act(types.EnvOutput(
        step_type=np.where(self._is_first, dm_env.StepType.FIRST,
                           dm_env.StepType.MID).astype(np.uint8),
        reward=self._rewards(reward), observation=batch,
        instruction=self._word_ids(instruction),
        features=self._features(features),
        action_mask=self._masks(action_mask))).action
    self._is_first[:], self._kind = False, kind
    if self._action_box is not None:
      action = self._action_box.fit(action)
    if not is_single:
      return action
    return int(action[0]) if action[0].ndim == 0 else action[0]

  def reset(self, where: Any | None = None) -> None:
    """Forgets past observations: the next one begins an episode.

    In the bool [E] `where`, True stands for an environment whose episode has
    ended. With None, all have, and the next call of `act` may have another E.
    Raises UserError, in one line, if it does not fit the batch.
    """
    if where is None:
      self._kind = None
      where = np.ones_like(self._is_first)
    where = np.asarray(where)
    if where.dtype != bool or where.shape != self._is_first.shape:
      raise config_lib.UserError(
          f'where must be bool [{len(self._is_first)}], a truth value for each '
          f'environment of the batch, but is {_describe(where)}')
    self._is_first |= where

  def _batched(self, observation: Any) -> tuple[np.ndarray, bool]:
    """Returns observations [E, ...], and whether a single one was given."""
    spec = self.loaded.observation_spec
    given = np.asarray(observation)
    # Numbers of another width are converted in training, too.
    array = spaces.cast(given, spec.dtype)
    is_single = given.shape == spec.shape
    if array is None or not (
        is_single or (given.shape[1:] == spec.shape and given.ndim and
                      len(given))):
      raise config_lib.UserError(
          f'the agent was trained on observations {_describe(spec)}, or a '
          'batch of them with one dimension before, but this is '
          f'{_describe(given)}')
    return (array[np.newaxis] if is_single else array), is_single

  def _begun(self, num_envs: int, is_single: bool
             ) -> tuple[acting.Policy, str]:
    kind = 'one observation' if is_single else f'a batch of {num_envs}'
    if self._kind not in (None, kind):
      raise config_lib.UserError(
          f'observations were {self._kind} and now are {kind}; call reset() in '
          'between, or load a policy for each')
    if self._policy is None or len(self._is_first) != num_envs:
      self._policy = acting.Policy(
          self.loaded.agent, num_envs, self._seed, self._deterministic)
      self._is_first = np.ones(num_envs, bool)
    return self._policy, kind

  def _rewards(self, reward: Any) -> np.ndarray:
    """Checks rewards; returns float32 [E], zeros if none were given."""
    shape = self._is_first.shape
    if reward is None:
      if self.loaded.agent.reads_rewards and not np.all(self._is_first):
        raise config_lib.UserError(
            'this agent has an LSTM that reads the last reward; give it: '
            'act(observation, reward=reward)')
      return np.zeros(shape, np.float32)
    rewards = np.asarray(reward, np.float32)
    if rewards.shape != shape:
      raise config_lib.UserError(
          'reward must be one number for each observation, '
          f'{list(shape)}, but is {_describe(rewards)}')
    return rewards

  def _word_ids(self, instruction: Any) -> Any:
    """Returns word ids of instructions, int32 [E, L]; () if none are read."""
    length = self.loaded.config.instruction_length
    texts = [instruction] if isinstance(instruction, str) else instruction
    num_envs = len(self._is_first)
    if not length and texts is None:
      return ()
    if not length or texts is None or len(texts) != num_envs:
      needs = f'{num_envs} instruction(s)' if length else 'no instruction'
      raise config_lib.UserError(
          f'this agent reads {needs} with each call of act, but was given '
          f'{"none" if texts is None else len(texts)}')
    ids = np.full([num_envs, length], word_ids.PADDING, np.int32)
    for row, text in zip(ids, texts):
      words = word_ids.word_ids(text) if isinstance(text, str) else text
      row[:len(words)] = words[:length]
    return ids

  def _features(self, features: Any) -> Any:
    """Checks numbers beside an image; returns float32 [E, F], () if F is 0."""
    num_features = self.loaded.agent.num_features
    if features is None and not num_features:
      return ()
    array = np.asarray(() if features is None else features, np.float32)
    wanted = len(self._is_first), num_features
    if not num_features or array.shape != wanted:
      raise config_lib.UserError(
          f'this agent reads features {list(wanted)} beside observations, but '
          f'was given {list(array.shape)}; see observation_space of '
          'load_policy')
    return array

  def _masks(self, action_mask: Any) -> Any:
    """Returns masks of legal actions, uint8 [E, P]; () if trained without."""
    num_envs = len(self._is_first)
    if not self.loaded.agent.has_action_mask:
      if action_mask is not None:
        raise config_lib.UserError(
            'this agent was trained without masks; leave action_mask out')
      return ()
    if action_mask is None or len(action_mask) != num_envs:
      raise config_lib.UserError(
          'this agent was trained with masks; pass those of the '
          f"{num_envs} environment(s) to act: action_mask=info['action_mask']")
    try:
      return np.stack([
          spaces.flat_mask(mask, self.loaded.agent.distribution.num_values)
          for mask in action_mask])
    except spaces.SpaceError as error:
      raise config_lib.UserError(f'action_mask {error}') from error


def _make_converter(space: Any, loaded: saved.LoadedAgent
                    ) -> spaces.Converter | None:
  """Makes the converter of `space`; if None, of training's space, if recorded.

  Raises UserError if the space does not fit.
  """
  description = loaded.interface.get('observations') or ()
  if space is None:
    return (spaces.Converter.from_description(description)
            if description and description[0] is not None else None)
  try:
    converter = spaces.Converter(space, *description[1:])
  except spaces.SpaceError as error:
    raise config_lib.UserError(f'observation_space has {error}') from error
  spec, wanted = converter.observation_spec, loaded.observation_spec
  if (spec.shape, spec.dtype, converter.num_features) != (
      wanted.shape, wanted.dtype, loaded.agent.num_features):
    raise config_lib.UserError(
        f'observations of observation_space are {_describe(spec)} with '
        f'{converter.num_features} features, but the agent was trained on '
        f'{_describe(wanted)} with {loaded.agent.num_features}')
  return converter


def _converted(convert: spaces.Converter, observation: Any
               ) -> tuple[Any, Any, Any]:
  """Converts one observation of the space, or several in a list or array.

  Returns the agent's observation, features or None, and mask or None. Raises
  SpaceError for another, and for an array that was converted already.
  """
  spec = convert.observation_spec
  if (isinstance(observation, np.ndarray) and observation.dtype == spec.dtype
      and observation.shape[-len(spec.shape):] == spec.shape
      and 'Box' not in convert.description()[0]):
    raise spaces.SpaceError('is converted already')
  try:
    one = convert(observation)
    return (one.observation, one.features if convert.num_features else None,
            one.action_mask)
  except spaces.SpaceError:
    if not isinstance(observation, (list, np.ndarray)) or not len(observation):
      raise
  observations, features, masks = zip(*map(convert, observation))
  return (np.stack(observations),
          np.stack(features) if convert.num_features else None,
          masks if convert.has_mask else None)


def _describe(array: Any) -> str:
  return f'{array.dtype} {list(array.shape)}'


def load_policy(path: str, checkpoint: checkpoint_lib.Which = 'newest',
                deterministic: bool = False, seed: int = 0,
                observation_space: Any = None) -> TrainedPolicy:
  """Loads the agent of a run, ready to act.

  Args:
    path: path or URL of a run's directory, or of an exported agent's, or the
      name of a shipped agent, such as 'pong'.
    checkpoint: 'newest', 'best' (by the mean return of 100 episodes of
      training), or the number of updates in the name of a checkpoint.
    deterministic: take the most probable action, or the mean of continuous
      ones, instead of sampling as in training.
    observation_space: Gymnasium's space of the observations that `act` will be
      given, which it converts as training did; None for the one of training,
      which is kept with the agent.

  Raises UserError if there is no such agent or checkpoint, or the agent was
  trained on other observations.
  """
  return TrainedPolicy(saved.load_agent(path, checkpoint), deterministic, seed,
                       observation_space)
