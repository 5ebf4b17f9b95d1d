"""Checker of prose: long sentences, and phrases that a reader must decode.

    python -m lab.prose PATH…

prints each finding as FILE:LINE: TEXT, and ends with 1 if there is one. It
reads docstrings and comments of Python files, comments of configs, and the text
of Markdown pages. Checkers such as vale and proselint do not read docstrings by
section, and know none of these phrases.
"""

import ast
import io
import pathlib
import re
import sys
import tokenize
from typing import Iterator, NamedTuple, Sequence

MAX_WORDS = 25
_IF = "'if' or 'when'"
# Pattern of a phrase: what to write instead.
_PHRASES = {
    r"\bof (?:its|their|his|your|one's) own\b": "'its own', or a noun",
    r'\b(?:tell|tells|told|telling)\b': "'report', 'identify' or 'know'",
    r'\bstarts nothing yet\b': 'nothing, or when it starts',
    r'(?:^|[:,;.] )[Ww]hat (?:is|are|was|were|it|they|a|the)\b': 'a noun',
    r'\bthose that\b': 'the noun',
    r'(?:^|[:;.] )[Ww]here\b(?! ?`)': _IF,
    r'\b(?:if|but|and|or|only|also) where\b': _IF,
    r'\bwhere (?:there|it|they|he|nothing|none|neither|nobody|no one) '
    r'(?:is|are|was|were|has|have|does|do|cannot|can|must)\b': _IF,
    r"\b(?:nobody|no one)'s\b": 'who does what',
    r'\b(?:knob|keeper|crowd)s?\b': 'the term of the glossary',
}
_SECTION = re.compile(
    r'\s*(?:Args|Returns|Raises|Yields|Attributes|Fields|Shapes):\s*$')
_ENTRY = re.compile(r'\s*(?:[-*] |\d+\. |[\w*.\[\]`, ]{1,60}: (?=\S))')
_NO_PROSE = ('|', '#', '!', '<', ':::')  # Tables, headings, pictures, names.


class Text(NamedTuple):
  """A paragraph and the line where it begins."""
  line: int
  text: str


def _paragraphs(first_line: int, lines: Sequence[str]) -> Iterator[Text]:
  """Yields paragraphs without indented code; an entry of a list begins one."""
  words: list[str] = []
  begin, in_code = first_line, False
  for number, line in enumerate(lines, first_line):
    ends = not line.strip() or bool(_SECTION.match(line))
    in_code = line.startswith('    ') and not ends and (in_code or not words)
    if (ends or in_code or _ENTRY.match(line)) and words:
      yield Text(begin, ' '.join(words))
      words = []
    if not ends and not in_code:
      begin = begin if words else number
      words.append(line.strip())
  if words:
    yield Text(begin, ' '.join(words))


def _of_python(source: str) -> Iterator[Text]:
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
      text = ast.get_docstring(node)
      if text:
        yield from _paragraphs(node.body[0].lineno, text.split('\n'))
  yield from _of_comments({
      token.start[0]: token.string
      for token in tokenize.generate_tokens(io.StringIO(source).readline)
      if token.type == tokenize.COMMENT})


def _of_comments(comments: dict[int, str]) -> Iterator[Text]:
  """Yields paragraphs of comments by line; neighbours belong together."""
  block: list[str] = []
  for number, text in sorted(comments.items()):
    block.append(text.lstrip('#').strip())
    if number + 1 not in comments:
      yield from _paragraphs(number - len(block) + 1, block)
      block = []


def _of_markdown(source: str) -> Iterator[Text]:
  lines, in_code = [], False
  for line in source.split('\n'):
    is_fence = line.lstrip().startswith('```')
    in_code ^= is_fence
    is_prose = not in_code and not line.lstrip().startswith(('```', *_NO_PROSE))
    lines.append(line if is_prose else '')
  yield from _paragraphs(1, lines)


def texts(path: str) -> Iterator[Text]:
  """Yields the paragraphs of a Python file, a Markdown page or a config."""
  source = pathlib.Path(path).read_text(encoding='utf-8')
  if path.endswith('.py'):
    return _of_python(source)
  if path.endswith('.md'):
    return _of_markdown(source)
  return _of_comments({
      number: line for number, line in enumerate(source.split('\n'), 1)
      if line.startswith('#')})


def findings(path: str) -> Iterator[str]:
  """Yields a line for each long sentence and each phrase of `_PHRASES`."""
  for line, text in texts(path):
    text = re.sub(r'`[^`]*`|\[([^]]*)\]\([^)]*\)', r'`\1`',
                  re.sub(r'^(?:[-*]|\d+\.) ', '', text))
    for sentence in re.split(r'(?<=[.!?;])\s+| · ', text):
      number = len(sentence.split())
      if number > MAX_WORDS:
        yield (f'{path}:{line}: {number} words, above {MAX_WORDS}: '
               f'{sentence[:60]}…')
    for pattern, better in _PHRASES.items():
      for match in re.finditer(pattern, text):
        yield f'{path}:{line}: "{match[0].strip()}": write {better}'


def main(paths: Sequence[str]) -> int:
  """Prints the findings in files and directories; returns the exit code."""
  for path in paths:
    pathlib.Path(path).stat()  # Raises FileNotFoundError.
  files = [file for path in map(pathlib.Path, paths)
           for file in (sorted(path.rglob('*')) if path.is_dir() else [path])
           if file.suffix in ('.py', '.md', '.gin')]
  found = [finding for file in files for finding in findings(str(file))]
  for finding in found:
    print(finding)
  return int(bool(found))


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
