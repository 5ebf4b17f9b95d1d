"""What a level tells its agent to do, in words, as numbers.

Words are hashed, as in the paper's published code, and not looked up in a list:
so actors, learner, evaluation and resumed runs agree without one, and any level
may use any word. The price is that two words may share an id: n words have
about n^2 / 2,000 such pairs. Those of MiniGrid, BabyAI and DeepMind Lab have
none.
"""

import re
from typing import List
import zlib

# The published code's number of "hash buckets".
NUM_WORD_IDS = 1000
# Stands behind an instruction's last word.
PADDING = 0

# The first number from which on no two words of the levels above, 102 words,
# get the same id.
_HASH_START = 14


def word_ids(instruction: str) -> List[int]:
  """Ids, 1 to `NUM_WORD_IDS`, of an instruction's words in their order.

  Words are what spaces and punctuation separate; capitals do not matter.
  """
  # Not `hash`, which differs from process to process.
  return [1 + zlib.crc32(word.encode(), _HASH_START) % NUM_WORD_IDS
          for word in re.findall(r'\w+', instruction.lower())]
