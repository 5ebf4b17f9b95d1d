"""Model cards of exported agents, as the Hugging Face Hub reads them.

A card is a README.md that begins with facts in YAML. They are written as JSON,
which is YAML, too.
"""

import json
from typing import Any, Mapping, Sequence

from impala_tf.runs import recorded_results

FILE = 'README.md'
VIDEO = 'replay.mp4'  # The Hub plays a file of this name beside the card.
_USAGE = '''DIRECTORY is that of this file, such as
`huggingface_hub.snapshot_download(NAME)`. The package impala_tf
plays it.

```python
import impala_tf
policy = impala_tf.load_policy(DIRECTORY)
action = policy.act(observation)  # As the environment gives it.
policy.reset()  # After an episode.
```

`help(policy.act)` says what agents with memory, masks or instructions need.

```
impala-tf evaluate DIRECTORY {}
```'''


def make(results: Sequence[recorded_results.Result], algorithm: str,
         licence: str, about: Mapping[str, Any], flags: str,
         has_video: bool) -> str:
  """Returns the text of an agent's model card with its score on each level.

  `about` has further rows of its table; empty ones are left out. `flags` are
  for the command that plays a game.
  """
  first = results[0]
  facts = {
      'library_name': 'impala_tf',
      'license': licence,
      'tags': ['reinforcement-learning', 'deep-reinforcement-learning',
               algorithm, *(result.task for result in results)],
      'model-index': [{'name': algorithm, 'results': [{
          'task': {'type': 'reinforcement-learning',
                   'name': 'reinforcement-learning'},
          'dataset': {'name': result.task, 'type': result.task},
          'metrics': [{'type': 'mean_reward', 'value': _score(result),
                       'name': 'mean_reward', 'verified': False}],
      } for result in results]}],
  }
  origin = {
      'config': first.config, 'seed': first.seed,
      'frames learned from': f'{first.frames:,d}',
      'minutes of training': first.minutes, 'machine': first.machine,
      'command': f'`{first.command}`' if first.command else '',
      'commit': first.commit, 'licence': licence, **about}
  lines = [
      '---', json.dumps(facts, indent=1, ensure_ascii=False), '---',
      f'# {algorithm} on {", ".join(result.task for result in results)}', '',
      *([f'[One game]({VIDEO})', ''] * has_video),
      '| level | mean return ± standard error | games | protocol |',
      '|---|---|---|---|',
      *(f'| {result.task} | {_score(result)} | {result.games} | '
        f'{result.protocol} |' for result in results), '',
      '| | |', '|---|---|',
      *('| {} | {} |'.format(name, str(value).replace('|', r'\|'))
        for name, value in origin.items() if value not in ('', None)), '',
      _USAGE.format(flags)]
  return '\n'.join(lines) + '\n'


def _score(result: recorded_results.Result) -> str:
  """Formats a score as the Hub's leaderboards read it."""
  if result.standard_error is None:
    return f'{result.score:.2f}'
  return f'{result.score:.2f} +/- {result.standard_error:.2f}'
