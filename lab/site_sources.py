"""Hook of mkdocs that adds the source files to which pages link.

Pages link to code as a repository shows it, `../impala_tf/maths/vtrace.py`. The
site has no such place, so it gets a copy of each file.
"""

import pathlib
import re
from typing import Any

from mkdocs.structure import files as files_lib

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_LINK = re.compile(r'\]\(\.\./([\w./]+\.py)\)')


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
  """Adds linked source files to the site; points the links at the copies."""
  del page
  for path in set(_LINK.findall(markdown)):
    if files.get_file_from_path(path) is None:
      files.append(files_lib.File(
          path, str(_ROOT), config.site_dir, use_directory_urls=False))
  return _LINK.sub(r'](\1)', markdown)
