"""The file build.ninja of DeepMind Lab, made from Lab's own BUILD files.

Each library's sources are compiled once, with its own options and with what
its dependencies declare for all that use them; binaries are linked from the
objects of all libraries that they depend on. Other repositories of Lab's
workspace are the system's libraries here.
"""

import dataclasses
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sysconfig
from typing import Callable, Dict, Iterable, List, Mapping, Sequence, Tuple

from launch.dmlab_build import build_files

# Our own headers, and their copy in the directory of the build: commands stay
# the same when another checkout of this project gives them.
HEADERS = pathlib.Path(__file__).resolve().parent / 'headers'
HEADERS_COPY = 'headers'
PACKED = 'packed'  # Written once the package is whole.

# Targets whose files the package needs, and their paths in it.
BINARIES = {
    '//:deepmind_lab.so': 'deepmind_lab.so',
    '//:libdmlab_headless_sw.so': 'libdmlab_headless_sw.so',
    '//:libdmlab_headless_hw.so': 'libdmlab_headless_hw.so',
    '//:bspc': 'bspc',
    '//q3map2': 'q3map2/q3map2',
}
# Bytecode of the three virtual machines, see //:vm_pk3.
_BYTECODE = ('//:cgame_qvm', '//:qagame_qvm', '//:q3ui_qvm')
# The compiler of the bytecode; its parts find each other by these names.
_TOOLS = {f'//:{name}': f'tools/{name}'
          for name in ('q3asm', 'lburg', 'q3rcc', 'q3cpp', 'q3lcc')}

_RULES = """\
ninja_required_version = 1.5
# Warnings are Lab's own affair.
cflags = -O2 -DNDEBUG -fPIC -w
rule cc
  command = gcc $cflags $flags -MMD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = CC $out
rule cxx
  command = g++ -std=c++17 $cflags $flags -MMD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = CXX $out
rule link
  command = g++ -s $lflags $in -o $out $libs
  description = LINK $out
rule dagcheck
  command = tools/lburg $in > $out
  description = LBURG $out
rule assembly
  command = tools/q3lcc -DSTANDALONE $in -o $out
  description = LCC $out
rule bytecode
  command = tools/q3asm -m -o $main $in
  description = ASM $main
rule pack
  # Ninja repeats a command that is another: one of other files is.
  command = $pack # of $digest
  description = PACK $out
"""


@dataclasses.dataclass(frozen=True)
class Flags:
  """How a library of the system is compiled with, and linked."""
  compile: Sequence[str] = ()
  link: Sequence[str] = ()


def system_library(label: str) -> Flags:
  """Returns the flags for a library of another repository.

  Args:
    label: such as '@zlib_archive//:zlib'.

  Raises:
    BuildFileError: for an unknown one, or one that pkg-config does not find.
  """
  repository, _, rest = label[1:].partition('//')
  if repository == 'com_google_absl':
    return _abseil(*build_files.split_label(f'//{rest}', ''))
  if repository == 'python_system':
    import numpy  # Its headers are needed beside those of Python.
    return Flags([f'-I{sysconfig.get_path("include")}',
                  f'-I{numpy.get_include()}'])
  if repository == 'jpeg_archive':
    return Flags(link=['-ljpeg'])
  if repository == 'png_archive':  # q3map2 has zlib through it.
    return _pkg_config('libpng', 'zlib')
  if repository == 'libxml_archive':
    found = _pkg_config('libxml-2.0')
    return Flags(['-include', f'{HEADERS_COPY}/libxml_without_icu.h',
                  *found.compile], found.link)
  modules = {'eigen_archive': 'eigen3', 'glib_archive': 'glib-2.0',
             'lua_archive': 'lua5.1', 'sdl_system': 'sdl2',
             'zlib_archive': 'zlib'}
  if repository not in modules:
    raise build_files.BuildFileError(f'unknown library {label}')
  return _pkg_config(modules[repository])


def _abseil(package: str, name: str) -> Flags:
  if package == 'absl/log':
    return Flags([f'-I{HEADERS_COPY}'])
  return _pkg_config(f'absl_{name}')


def _pkg_config(*modules: str) -> Flags:
  def ask(flag):
    try:
      ran = subprocess.run(['pkg-config', flag, *modules], capture_output=True,
                           text=True)
    except FileNotFoundError as error:
      raise build_files.BuildFileError(
          'there is no program pkg-config; install what docs/dmlab.md lists'
      ) from error
    if ran.returncode:
      raise build_files.BuildFileError(
          f'pkg-config does not know {" ".join(modules)}: '
          f'{ran.stderr.splitlines()[0]}')
    return shlex.split(ran.stdout)
  return Flags(ask('--cflags'), ask('--libs'))


def of_lab(source: pathlib.Path) -> 'NinjaFile':
  """Returns the file for all binaries of the package and its bytecode.

  Args:
    source: Lab's sources, an absolute path.

  Raises:
    BuildFileError: where a BUILD file or a library of the system is missing.
  """
  ninja = NinjaFile(source)
  for label, output in {**_TOOLS, **BINARIES}.items():
    ninja.binary(label, output)
  ninja.generated('//:lcc_dagcheck', 'dagcheck', needs=[_TOOLS['//:lburg']])
  ninja.assembly([_TOOLS[f'//:{name}'] for name in ('q3lcc', 'q3rcc', 'q3cpp')])
  for label in _BYTECODE:
    ninja.generated(label, 'bytecode', needs=[_TOOLS['//:q3asm']])
  return ninja


class NinjaFile:
  """The text of build.ninja, which grows by what is asked for."""

  def __init__(self, source: pathlib.Path,
               library: Callable[[str], Flags] = system_library):
    """Begins the file.

    Args:
      source: Lab's sources, an absolute path.
      library: flags of a library of another repository by its label.
    """
    self._workspace = build_files.Workspace(source)
    self._library = library
    self._flags: Dict[str, Flags] = {}  # By label.
    self._objects: Dict[Tuple[str, str], str] = {}  # By source and flags.
    self._text = [_RULES]

  def text(self) -> str:
    """Returns what is in the file so far."""
    return '\n'.join(self._text) + '\n'

  def write(self, build: pathlib.Path) -> None:
    """Writes build.ninja and our headers into the directory of the build."""
    for path in HEADERS.rglob('*.h'):
      copy = build / HEADERS_COPY / path.relative_to(HEADERS)
      # A newer copy would have its users compiled anew.
      if not copy.exists() or copy.read_bytes() != path.read_bytes():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    new = build / 'build.ninja.new'
    new.write_text(self.text())
    new.replace(build / 'build.ninja')

  def binary(self, label: str, output: str) -> None:
    """Adds a program or a shared library, and all that it is made of."""
    target = self._workspace.target(label)
    closure = list(self._workspace.closure(target))
    objects, libraries = [], []
    for part, others in closure:
      objects += self._compiled(part)
      libraries += self._expanded(part, 'linkopts')
      for other in others:
        libraries += self._system(other).link
    flags = ['-shared'] if target.attributes.get('linkshared') else []
    self._build([output], 'link', objects, {
        'lflags': shlex.join(flags),
        # Each once, as late as it is needed.
        'libs': shlex.join(reversed(dict.fromkeys(reversed(libraries))))})

  def generated(self, label: str, rule: str, needs: Sequence[str]) -> None:
    """Adds the outputs of a genrule of the BUILD file.

    Args:
      label: the genrule, whose command is not looked at.
      rule: our rule instead, which gets the genrule's sources.
      needs: other files that the outputs depend on.
    """
    target = self._workspace.target(label)
    inputs, outputs = (
        [self._path(path) for path in self._workspace.files(target, attribute)]
        for attribute in ('srcs', 'outs'))
    main = [path for path in outputs if not path.endswith('.map')]
    self._build(outputs, rule, inputs, {'main': shlex.join(main)}, needs)

  def assembly(self, needs: Sequence[str]) -> None:
    """Adds the assembly that all bytecode is made of, see //:qvm_asms."""
    headers = self._workspace.files(self._workspace.target('//:qvm_headers'))
    self._build(['qvm_headers'], 'phony', map(self._path, headers), {})
    sources = self._workspace.files(self._workspace.target('//:qvm_src'))
    for path in sources:
      assembly = pathlib.PurePosixPath(path).with_suffix('.asm').as_posix()
      self._build([f'gen/{assembly}'], 'assembly', [self._path(path)], {},
                  ['qvm_headers', *needs])

  def packed(self, inputs: Sequence[str], command: Sequence[str]) -> None:
    """Adds the package, made anew where its files are not those it was of.

    Ninja alone would miss files that come or change with an old time, as they
    do by `cp -a` or from an archive.

    Args:
      inputs: files of the package; those that the build makes are relative.
      command: makes it in the directory of the build.
    """
    self._build([PACKED], 'pack', inputs, {
        'pack': shlex.join(command), 'digest': _digest(inputs)})
    self._text.append(f'default {PACKED}')

  def _path(self, path: str) -> str:
    """Returns where a file of a BUILD file is: in the sources, or made."""
    whole = self._workspace.source / path
    return str(whole) if whole.exists() else f'gen/{path}'

  def _system(self, label: str) -> Flags:
    if label not in self._flags:
      self._flags[label] = self._library(label)
    return self._flags[label]

  def _compiled(self, target: build_files.Target) -> List[str]:
    """Adds the objects of a target's own sources; returns their paths."""
    sources = [path for path in target.list_of('srcs')
               if path.endswith(('.c', '.cc'))]
    if not sources:
      return []
    flags = shlex.join(self._compile_flags(target))
    objects = []
    for source in sources:
      package, name = build_files.split_label(source, target.package)
      path = f'{package}/{name}' if package else name
      if (path, flags) not in self._objects:
        # Two libraries may compile one file differently.
        digest = hashlib.sha256(flags.encode()).hexdigest()[:8]
        self._objects[path, flags] = f'obj/{digest}/{path}.o'
        self._build([self._objects[path, flags]],
                    'cxx' if path.endswith('.cc') else 'cc',
                    [self._path(path)], {'flags': flags})
      objects.append(self._objects[path, flags])
    return objects

  def _compile_flags(self, target: build_files.Target) -> List[str]:
    source = self._workspace.source
    # Theirs are relative to the sources.
    flags = [f'-I{source / option[2:]}' if option.startswith('-I') else option
             for option in self._expanded(target, 'copts')]
    flags.append(f'-I{source}')
    for part, others in self._workspace.closure(target):
      flags += [f'-D{define}' for define in part.list_of('defines')]
      flags += [f'-I{source / part.package / directory}'
                for directory in part.list_of('includes')]
      for other in others:
        flags += self._system(other).compile
    return [*dict.fromkeys(flags)]

  def _expanded(self, target: build_files.Target, attribute: str) -> List[str]:
    """Returns options as words, as Bazel splits and expands them."""
    words = []
    for option in target.list_of(attribute):
      before, location, rest = option.partition('$(location ')
      if location:
        label, _, after = rest.partition(')')
        package, name = build_files.split_label(label, target.package)
        path = self._workspace.source / package / name
        words.append(f'{before}{path}{after}')
      else:
        words += shlex.split(option)
    return words

  def _build(self, outputs: Sequence[str], rule: str, inputs: Iterable[str],
             variables: Mapping[str, str], needs: Sequence[str] = ()):
    line = f'build {_paths(outputs)}: {rule} {_paths(inputs)}'
    if needs:
      line += f' | {_paths(needs)}'
    self._text.append(line)
    self._text += [f'  {name} = {value.replace("$", "$$")}'
                   for name, value in variables.items() if value]


def _digest(paths: Iterable[str]) -> str:
  """Returns a digest of paths, sizes and times, as far as files are there."""
  digest = hashlib.sha256()
  for path in sorted(paths):
    digest.update(f'{path}\n'.encode())
    if os.path.isabs(path) and os.path.exists(path):
      found = os.stat(path)
      digest.update(f'{found.st_size} {found.st_mtime_ns}\n'.encode())
  return digest.hexdigest()[:16]


def _paths(paths: Iterable[str]) -> str:
  """Escapes paths for a line that begins with `build`."""
  return ' '.join(
      path.replace('$', '$$').replace(' ', '$ ').replace(':', '$:')
      for path in paths)
