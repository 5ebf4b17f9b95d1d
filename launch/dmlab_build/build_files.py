"""BUILD files of Bazel, evaluated as far as DeepMind Lab's need it.

A BUILD file is a program in a subset of Python. It is run with functions that
record what it declares: each call with a name is a target.
"""

import dataclasses
import functools
import pathlib
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

# The condition whose value `select` returns: no flags of Lab's build are set.
_DEFAULT_CONDITION = '//conditions:default'


class BuildFileError(Exception):
  """A BUILD file that is missing, or has something else than expected."""


@dataclasses.dataclass(frozen=True)
class Target:
  """One declaration of a BUILD file.

  Attributes:
    rule: the function that was called, such as 'cc_library'.
    package: directory of the BUILD file, relative to the sources.
    name: name of the target, unique in its package.
    attributes: all arguments of the call.
  """
  rule: str
  package: str
  name: str
  attributes: Mapping[str, Any]

  @property
  def label(self) -> str:
    """Full name of the target: '//package:name'."""
    return f'//{self.package}:{self.name}'

  def list_of(self, attribute: str) -> List[str]:
    """Returns an attribute that is a list; an empty one if it is not given."""
    return list(self.attributes.get(attribute, ()))


class _Scope(dict):
  """Names of a BUILD file; one that is not defined is a rule's."""

  def __init__(self, source: pathlib.Path, package: str):
    super().__init__(
        __builtins__={}, len=len, range=range, enumerate=enumerate,
        zip=zip, str=str, dict=dict, list=list, sorted=sorted,
        glob=functools.partial(_glob, source / package), select=_select)
    self.targets: Dict[str, Target] = {}
    self._package = package

  def __missing__(self, rule: str):
    return functools.partial(self._declare, rule)

  def _declare(self, rule: str, *_, **attributes):
    """Records a target; calls without a name say nothing that we need."""
    if 'name' in attributes:
      name = attributes['name']
      self.targets[name] = Target(rule, self._package, name, attributes)


def _glob(directory: pathlib.Path, include: Sequence[str],
          exclude: Sequence[str] = (), **_) -> List[str]:
  """Lists the files that match, relative to the package, in order."""
  def matching(patterns):
    return {path.relative_to(directory).as_posix() for pattern in patterns
            for path in directory.glob(pattern) if path.is_file()}
  return sorted(matching(include) - matching(exclude))


def _select(conditions: Mapping[str, Any], **_) -> Any:
  try:
    return conditions[_DEFAULT_CONDITION]
  except KeyError:
    raise BuildFileError(
        f'select() without {_DEFAULT_CONDITION}: {sorted(conditions)}'
    ) from None


def split_label(label: str, package: str) -> Tuple[str, str]:
  """Returns package and name of a label that is used in a package.

  Args:
    label: '//a/b:c', '//a/b' for '//a/b:b', ':c', or 'c'.
    package: where it is used.
  """
  if label.startswith('//'):
    package, _, name = label[2:].partition(':')
    return package, name or package.rpartition('/')[2]
  return package, label.lstrip(':')


class Workspace:
  """All targets of a directory of sources; its BUILD files are read as needed.

  Labels that begin with '@' are of other repositories, and never looked up.
  """

  def __init__(self, source: pathlib.Path):
    self.source = source
    self._packages: Dict[str, Dict[str, Target]] = {}

  def target(self, label: str, package: str = '') -> Target:
    """Returns a target; raises BuildFileError where there is none."""
    package, name = split_label(label, package)
    try:
      return self._targets(package)[name]
    except KeyError:
      raise BuildFileError(
          f'{self.source / package / "BUILD"} declares no {name}') from None

  def has_target(self, label: str, package: str) -> bool:
    """Tells whether a label is a target's; else it is a file's."""
    package, name = split_label(label, package)
    return name in self._targets(package)

  def closure(self, target: Target) -> Iterator[Tuple[Target, List[str]]]:
    """Yields the target and all targets that it depends on, each once.

    Yields:
      Targets, each before those that it depends on; and the labels of other
      repositories among its own dependencies.
    """
    waiting, seen = [target], set()
    while waiting:
      target = waiting.pop(0)
      if target.label in seen:
        continue
      seen.add(target.label)
      deps = target.list_of('deps')
      yield target, [dep for dep in deps if dep.startswith('@')]
      waiting += [self.target(dep, target.package) for dep in deps
                  if not dep.startswith('@')
                  and self.has_target(dep, target.package)]

  def files(self, target: Target, attribute: str = 'srcs') -> List[str]:
    """Lists the files of an attribute, those of the targets in it included.

    Args:
      target: target that has the attribute.
      attribute: name of a list of labels.

    Returns:
      Paths relative to the sources. A target stands for what it declares as
      outputs, or else for its own sources.
    """
    paths = []
    for label in target.list_of(attribute):
      if self.has_target(label, target.package):
        other = self.target(label, target.package)
        paths += self.files(
            other, 'outs' if 'outs' in other.attributes else 'srcs')
      else:
        package, name = split_label(label, target.package)
        paths.append(f'{package}/{name}' if package else name)
    return paths

  def _targets(self, package: str) -> Dict[str, Target]:
    if package not in self._packages:
      path = self.source / package / 'BUILD'
      scope = _Scope(self.source, package)
      try:
        exec(compile(path.read_text(), path, 'exec'), scope)
      except OSError as error:
        raise BuildFileError(f'cannot read {path}: {error.strerror}') from error
      except Exception as error:
        raise BuildFileError(
            f'{path}: {type(error).__name__}: {error}') from error
      self._packages[package] = scope.targets
    return self._packages[package]
