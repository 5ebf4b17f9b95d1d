"""One thing is no plural, and nouns that end with s have their own."""

from impala_tf.runtime import plurals


def test_one_is_no_plural():
  assert plurals.counted(1, 'learner thread') == '1 learner thread'
  assert plurals.counted(0, 'game') == '0 games'
  assert plurals.counted(2, 'actor process') == '2 actor processes'
