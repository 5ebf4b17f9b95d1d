"""Drawing without a display, in programs that import simulators anew."""

import ctypes.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not ctypes.util.find_library('EGL'), reason='there is no EGL')

def _run(program, **environ):
  return subprocess.run(
      [sys.executable, '-c', program], text=True, capture_output=True, env={
          'PATH': os.environ['PATH'], 'PYTHONPATH': ':'.join(sys.path),
          **environ})


def test_both_draw_without_a_display_in_one_process():
  result = _run("""
from impala_tf.envs import control
from impala_tf.envs import gym
for env in (gym.GymEnvironment('InvertedPendulum-v5', 1, seed=0),
            control.ControlEnvironment('cartpole/balance', 1, seed=0)):
  env.reset()
  assert env.render().std() > 0
""")
  assert result.returncode == 0, result.stderr


@pytest.mark.parametrize('environ, chosen', [
    ({}, 'egl'), ({'MUJOCO_GL': 'osmesa'}, 'osmesa'),
    ({'DISPLAY': ':0'}, None)])
def test_a_display_or_the_users_choice_comes_first(environ, chosen):
  result = _run('import os\nfrom impala_tf.envs import display\n'
                'display.draw_without_display()\n'
                "print(os.environ.get('MUJOCO_GL'))", **environ)
  assert result.stdout == f'{chosen}\n'
