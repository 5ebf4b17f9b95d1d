"""Names of levels, and the forms in which a domain has them written."""

import pytest

from impala_tf.envs import domain


@pytest.mark.parametrize('level, fits', [
    ('coins', True), ('coins/', False), ('coins/a', False), ('coin', False),
    ('dice', False), ('dice/', False), ('dice/6', True), ('dice/6/7', True),
    ('dice/<sides>', True), ('Dice/6', False), ('', False)])
def test_placeholder_stands_for_any_text_that_is_not_empty(level, fits):
  row = domain.Domain(
      forms=('coins', 'dice/<sides>'), check=lambda name: None,
      make=lambda *arguments: None)
  assert row.has_form_of(level) == fits
