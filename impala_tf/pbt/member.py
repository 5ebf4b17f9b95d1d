"""A member of a population, whose learner decides between two updates.

Appendix F of Espeholt et al. 2018. Members are ordinary runs. Each compares
itself with the last publication of another, and none waits for another.
"""

import contextlib
import os
import time

from absl import logging
import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.config import population as population_config
from impala_tf.core import learner as learner_lib
from impala_tf.pbt import populations
from impala_tf.pbt import rules
from impala_tf.runtime import interfaces
from impala_tf.runtime import wording
from impala_tf.storage import checkpoint as checkpoint_lib
from impala_tf.storage import files

RETRY_SECS = 30.  # After a decision for which a disk had no room.
# Reads of a member that publishes again and again while it is copied.
_MAX_READS = 5


class State(tf.Module):
  """Episodes of a member since its last decision; saved in its checkpoints.

  Attributes:
    evolution: int64 variable [], number of decisions behind its parameters.
    episodes: int64 variable [L levels], full episodes since the last decision.
    return_sums: float64 variable [L], sum of their raw returns.
    means: float64 variable [L], mean return of each level's last decision; NaN
      before its first episode, or its first since a copy.
  """

  def __init__(self, num_levels: int):
    super().__init__(name='population')

    def variable(value, dtype):
      return tf.Variable(np.full(num_levels, value, dtype), trainable=False)

    self.evolution = tf.Variable(0, trainable=False, dtype=tf.int64)
    self.episodes = variable(0, np.int64)
    self.return_sums = variable(0., np.float64)
    self.means = variable(np.nan, np.float64)

  def add(self, level_index: np.ndarray, returns: np.ndarray) -> None:
    """Adds N episodes: their levels, int [N], and raw returns, float [N].

    Non-finite returns are left out: no decision could use their mean.
    """
    is_finite = np.isfinite(returns)
    level_index, returns = level_index[is_finite], returns[is_finite]
    num_levels = self.episodes.shape[0]
    self.episodes.assign_add(np.bincount(level_index, minlength=num_levels))
    self.return_sums.assign_add(
        np.bincount(level_index, returns, minlength=num_levels))

  def mean_returns(self) -> np.ndarray:
    """Returns mean returns [L]; without new episodes, a level's last mean."""
    episodes = self.episodes.numpy()
    return np.where(episodes > 0,
                    self.return_sums.numpy() / np.maximum(episodes, 1),
                    self.means.numpy())

  def begin(self, evolution: int, is_copy: bool) -> None:
    """Clears counts and sums of returns after decision number `evolution`.

    Old means say nothing about a member that copied another.
    """
    means = self.mean_returns()
    self.means.assign(np.full_like(means, np.nan) if is_copy else means)
    self.episodes.assign(tf.zeros_like(self.episodes))
    self.return_sums.assign(tf.zeros_like(self.return_sums))
    self.evolution.assign(evolution)


class Member:
  """A callback that copies better members of its population, and mutates.

  Before it decides it saves a checkpoint. A restart from it repeats the
  decision in the log of events, so a kill at any time changes nothing but the
  time it takes.
  """

  def __init__(self, config: config_lib.Config, run_dir: str,
               learner: learner_lib.Learner, state: State,
               checkpointer: checkpoint_lib.Checkpointer):
    """Makes the member, and completes a killed process's last decision.

    Learner and state are restored; the checkpointer writes both. Raises
    ConfigError if `run_dir` cannot be a member's.
    """
    self._learner = learner
    self._frames = int(learner.num_frames.numpy())
    self._state = state
    self._checkpointer = checkpointer
    self._parts = {'agent': learner.agent, 'optimizer': learner.optimizer}
    self._config = config
    self._options = config.population
    self._references = rules.find_references(config)
    self._run_dir = run_dir
    self._name = populations.name_of(run_dir)
    self._unpublished: populations.Event | None = None
    self._retry_time = 0.
    check_place(run_dir, self._options)
    files.make_directory(populations.path(run_dir))
    self._catch_up()

  def after_update(self, update: interfaces.Update) -> None:
    if self._frames >= self._options.burn_in_frames:
      self._count(update.batch)
    self._frames = update.frames
    if (self._unpublished or self._is_ready()) and (
        time.monotonic() >= self._retry_time):
      try:
        self._publish()
        if self._is_ready():
          self._decide()
      except OSError as error:
        self._retry_time = time.monotonic() + RETRY_SECS
        logging.warning('No decision of the population yet, training goes on: '
                        '%s', error)

  def _count(self, unroll: types.Unroll) -> None:
    env_outputs, num_fresh = unroll.env_outputs, self._config.num_fresh
    # x_0 was the last step of an earlier unroll and was counted there.
    is_first = env_outputs.step_type.numpy()[1:, :num_fresh] == int(
        dm_env.StepType.FIRST)
    # Lost episodes have none.
    is_first &= env_outputs.episode_steps.numpy()[1:, :num_fresh] > 0
    if is_first.any():
      levels = np.broadcast_to(
          unroll.level_index.numpy()[:num_fresh], is_first.shape)
      returns = env_outputs.episode_return.numpy()[1:, :num_fresh]
      self._state.add(levels[is_first], returns[is_first])

  def _is_ready(self) -> bool:
    options, state = self._options, self._state
    return (self._frames >= options.burn_in_frames and
            state.episodes.numpy().sum() >= options.decision_episodes and
            bool(np.all(np.isfinite(state.mean_returns()))))

  def _decide(self) -> None:
    """Makes a decision; raises OSError if it could not be recorded."""
    updates = int(self._learner.num_updates.numpy())
    self._checkpointer.save(updates)
    event = self._exploit_and_explore(updates)
    populations.append_event(self._run_dir, event)
    logging.info('Decision %d at %d frames: score %.3f, %s %s %s',
                 event.evolution, event.frames, event.score,
                 'a copy of' if event.is_copy else 'no copy of',
                 event.partner, event.partner_score)
    self._apply(event)
    self._unpublished = event
    self._publish()

  def _exploit_and_explore(self, updates: int) -> populations.Event:
    """Compares with a partner, copies a better one; returns the decision."""
    names = self._options.member_names
    evolution = int(self._state.evolution.numpy()) + 1
    rng = rules.generator(self._config.experiment.seed,
                          names.index(self._name), evolution)
    score = rules.fitness(self._state.mean_returns().tolist(), self._references)
    others = [name for name in names if name != self._name and
              not populations.has_failed(
                  populations.sibling(self._run_dir, name))]
    partner, other, copied = '', None, None
    if others:
      partner = rules.draw_partner(others, rng)
      other, copied = copy_better(
          self._run_dir, partner, score, self._options.copy_margin,
          f'copied-{evolution}')
    before = self._values()
    after = {name: other.hyperparameters.get(name, value)
             for name, value in before.items()} if copied and other else before
    mutated = rules.explore(
        {name: after[name] for name in self._options.adapted_names}, rng,
        self._options.mutation_probability, self._options.mutation_factor)
    after = {name: float(np.float32(value))  # As the variables will have them.
             for name, value in {**after, **mutated}.items()}
    return populations.Event(
        evolution, self._frames, updates, score, partner,
        other.score if other else None, other.evolution if other else None,
        other.frames if other else None, copied, before, after)

  def _values(self) -> dict[str, float]:
    variables = self._learner.hyperparameters
    return {name: float(variable.numpy())
            for name in population_config.ADAPTABLE
            if (variable := getattr(variables, name)) is not None}

  def _apply(self, event: populations.Event) -> None:
    """Applies a decision to learner and state; a restart may repeat it."""
    if event.checkpoint is not None:
      checkpoint_lib.read_parts(
          self._parts, populations.path(self._run_dir, event.checkpoint))
    for name, value in event.after.items():
      getattr(self._learner.hyperparameters, name).assign(value)
    self._state.begin(event.evolution, event.is_copy)

  def _catch_up(self) -> None:
    """Applies logged decisions that the restored checkpoint lacks."""
    events = populations.read_events(self._run_dir)
    for event in events:
      if event.evolution > self._state.evolution.numpy():
        self._apply(event)
    published = populations.read_published(self._run_dir)
    if events and (published is None or
                   published.evolution < events[-1].evolution):
      self._unpublished = events[-1]
      try:
        self._publish()
      except OSError as error:
        logging.warning('Not published yet: %s', error)

  def _publish(self) -> None:
    """Publishes the member with its last decision's fitness, if not yet done.

    After a failure on a full disk, parameters and frames are the present ones.
    """
    event = self._unpublished
    if event is None:
      return
    name = f'published-{event.evolution}'
    checkpoint_lib.write_parts(
        self._parts, populations.path(self._run_dir, name))
    populations.publish(self._run_dir, populations.Published(
        event.evolution, self._frames, event.fitness, name, self._values()))
    self._unpublished = None
    # The one before, too: another member may be copying it. Copies are needed
    # as long as there is a checkpoint from before their decision.
    oldest = event.evolution - self._config.experiment.checkpoints_to_keep
    populations.remove_parameters(self._run_dir, {
        name, f'published-{event.evolution - 1}',
        *(f'copied-{i}' for i in range(oldest, event.evolution + 1))})


def copy_better(run_dir: str, partner: str, score: float, margin: float,
                target: str) -> tuple[populations.Published | None, str | None]:
  """Reads a partner's publication, and copies its parameters if it is better.

  Returns the publication, or None; and `target`, the name for the copy, or None
  if it was not copied, as if it is damaged, which is logged.
  """
  partner_dir = populations.sibling(run_dir, partner)
  for _ in range(_MAX_READS):
    other = populations.read_published(partner_dir)
    if other is None or not rules.exploit(score, other.score, margin):
      return other, None
    path = populations.path(run_dir, target)
    with contextlib.suppress(FileNotFoundError):
      populations.copy_parameters(
          populations.path(partner_dir, other.checkpoint), path)
      # Read before the event is written: afterwards there is no way back.
      if checkpoint_lib.is_whole(path):
        return other, target
    # It removes this one, perhaps while it is copied, once it has another.
    if populations.read_published(partner_dir) == other:
      logging.warning(
          'Member %s is better, but cannot be copied: what it has published '
          'after its decision %d is damaged', partner, other.evolution)
      return other, None
  return None, None


def check_place(run_dir: str, population: config_lib.PopulationConfig) -> None:
  """Raises ConfigError if `run_dir` is a URL or not named after a member."""
  if files.is_url(run_dir):
    raise config_lib.ConfigError(
        'members of a population copy files of each other, so --run_dir must '
        'be a path of a file system, but is a URL; mount the bucket')
  if populations.name_of(run_dir) not in population.member_names:
    raise config_lib.ConfigError(
        f'{os.path.abspath(run_dir)} is not the directory of a member: '
        f'PopulationConfig.members are {population.members}; start them with '
        f'{wording.command("population")}')
