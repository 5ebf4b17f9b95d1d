"""Drawing with MuJoCo on a machine without a display."""

import ctypes.util
import os


def draw_without_display() -> None:
  """Has MuJoCo draw through EGL; must be called before it is imported.

  MuJoCo's default, GLFW, needs a display: without one, videos could not be made
  and tasks that draw by themselves (dm_control's 'quadruped/escape') could not
  be played. A user's own choice, the environment variable MUJOCO_GL, stays.
  """
  if 'DISPLAY' not in os.environ and ctypes.util.find_library('EGL'):
    os.environ.setdefault('MUJOCO_GL', 'egl')
