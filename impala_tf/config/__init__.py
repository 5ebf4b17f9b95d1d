"""Options of a run: frozen dataclasses with units and range checks."""

from impala_tf.config.actor import ActorConfig as ActorConfig
from impala_tf.config.agent import AgentConfig as AgentConfig
from impala_tf.config.asynchronous import AsyncConfig as AsyncConfig
from impala_tf.config.atari import AtariConfig as AtariConfig
from impala_tf.config.config import Config as Config
from impala_tf.config.config import from_json as from_json
from impala_tf.config.config import sections as sections
from impala_tf.config.config import to_json as to_json
from impala_tf.config.dmlab import DmlabConfig as DmlabConfig
from impala_tf.config.environment import EnvironmentConfig as EnvironmentConfig
from impala_tf.config.experiment import ExperimentConfig as ExperimentConfig
from impala_tf.config.fields import ConfigError as ConfigError
from impala_tf.config.fields import UserError as UserError
from impala_tf.config.fields import check_range as check_range
from impala_tf.config.fingerprint import data_fingerprint as data_fingerprint
from impala_tf.config.fingerprint import full_fingerprint as full_fingerprint
from impala_tf.config.impala import ImpalaConfig as ImpalaConfig
from impala_tf.config.laser import LaserConfig as LaserConfig
from impala_tf.config.learner import LearnerConfig as LearnerConfig
from impala_tf.config.optimizer import OptimizerConfig as OptimizerConfig
from impala_tf.config.population import PopulationConfig as PopulationConfig
from impala_tf.config.replay import ReplayConfig as ReplayConfig
from impala_tf.config.vizdoom import VizdoomConfig as VizdoomConfig
