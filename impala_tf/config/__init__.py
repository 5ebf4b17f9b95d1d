"""Options of a run: frozen dataclasses with units and range checks.

May import no other module of the project, and the standard library only.
"""

from impala_tf.config.actor import ActorConfig
from impala_tf.config.agent import AgentConfig
from impala_tf.config.asynchronous import AsyncConfig
from impala_tf.config.atari import AtariConfig
from impala_tf.config.config import Config
from impala_tf.config.dmlab import DmlabConfig
from impala_tf.config.environment import EnvironmentConfig
from impala_tf.config.experiment import ExperimentConfig
from impala_tf.config.fields import ConfigError
from impala_tf.config.fields import UserError
from impala_tf.config.impala import ImpalaConfig
from impala_tf.config.laser import LaserConfig
from impala_tf.config.learner import LearnerConfig
from impala_tf.config.optimizer import OptimizerConfig
from impala_tf.config.population import PopulationConfig
from impala_tf.config.replay import ReplayConfig
from impala_tf.config.vizdoom import VizdoomConfig

__all__ = [
    'ActorConfig',
    'AgentConfig',
    'AsyncConfig',
    'AtariConfig',
    'Config',
    'ConfigError',
    'DmlabConfig',
    'EnvironmentConfig',
    'ExperimentConfig',
    'ImpalaConfig',
    'LaserConfig',
    'LearnerConfig',
    'OptimizerConfig',
    'PopulationConfig',
    'ReplayConfig',
    'UserError',
    'VizdoomConfig',
]
