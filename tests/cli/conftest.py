"""Fixtures of tests that call programs in this process."""

import sys

import pytest


@pytest.fixture(name='call')
def _call(monkeypatch):
  """Calls a program with arguments; returns its exit code."""

  def call(main, *arguments):
    monkeypatch.setattr(sys, 'argv', ['program', *map(str, arguments)])
    return main()

  return call
