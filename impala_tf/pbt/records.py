"""Records of a population as JSON: decisions, and what members publish."""

import json
from typing import Mapping, NamedTuple, Optional, Type, TypeVar


class Event(NamedTuple):
  """A decision of a member.

  Attributes:
    evolution: number of the member's decision, from 1 on.
    frames: environment frames of the member when it decided.
    updates: learner updates likewise.
    score: fitness of the member before.
    partner: name of the member compared with; '' if all others have failed.
    partner_score: fitness of the partner; None if it had published nothing.
    partner_evolution: number of the partner's last decision before its
      publication; None likewise.
    partner_frames: frames of the partner then; None likewise.
    checkpoint: prefix of the member's own copy of the partner's parameters, in
      its population directory; None if nothing was copied.
    before: hyper-parameters before.
    after: hyper-parameters after: the partner's, if copied, and then mutated.
  """
  evolution: int
  frames: int
  updates: int
  score: float
  partner: str
  partner_score: Optional[float]
  partner_evolution: Optional[int]
  partner_frames: Optional[int]
  checkpoint: Optional[str]
  before: Mapping[str, float]
  after: Mapping[str, float]

  @property
  def is_copy(self) -> bool:
    """Whether the partner's parameters were copied."""
    return self.checkpoint is not None

  @property
  def fitness(self) -> float:
    """Fitness of the member afterwards."""
    if not self.is_copy:
      return self.score
    assert self.partner_score is not None  # Only better members are copied.
    return self.partner_score


class Published(NamedTuple):
  """A member as others may copy it.

  Attributes:
    evolution: number of the member's last decision.
    frames: environment frames of the member then.
    score: its fitness, from its own episodes or those of the member it copied.
    checkpoint: prefix of its parameters in its population directory.
    hyperparameters: all of its hyper-parameters.
  """
  evolution: int
  frames: int
  score: float
  checkpoint: str
  hyperparameters: Mapping[str, float]


_Record = TypeVar('_Record', Event, Published)


def dumps(record: _Record) -> str:
  """Writes a record as one line of JSON."""
  return json.dumps(record._asdict(), allow_nan=False)


def loads(kind: Type[_Record], text: str) -> _Record:
  """Reads a record of `dumps`; raises ValueError for any other text."""
  values = json.loads(text)
  if not isinstance(values, dict) or values.keys() != set(kind._fields):
    raise ValueError(f'no {kind.__name__}: {text[:80]!r}')
  return kind(**values)
