"""Counts of things in words; standard library only."""


def counted(number: int, noun: str) -> str:
  """Formats a count, such as '1 process' or '2 processes'."""
  ending = '' if number == 1 else 'es' if noun.endswith('s') else 's'
  return f'{number:d} {noun}{ending}'
