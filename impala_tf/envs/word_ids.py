"""Words of instructions as numbers.

Words are hashed, as in the paper's published code: no process needs a common
list, and a level may use any word. In return, two words may share an id: n
words have about n^2 / 2,000 such pairs. The words of MiniGrid, BabyAI and
DeepMind Lab have none.
"""

import re
import zlib

# The published code's number of "hash buckets".
NUM_WORD_IDS = 1000
# Id that fills an instruction up behind its last word.
PADDING = 0

# The smallest start of the hash with which no two of the 102 words of these
# packages get the same id.
_HASH_START = 14


def word_ids(instruction: str) -> list[int]:
  """Converts the words of an instruction to ids, 1 to `NUM_WORD_IDS`.

  Spaces and punctuation separate words; capitals do not matter.
  """
  # Not `hash`, which differs from process to process.
  return [1 + zlib.crc32(word.encode(), _HASH_START) % NUM_WORD_IDS
          for word in re.findall(r'\w+', instruction.lower())]
