"""Drawing with MuJoCo on a machine without a display."""

import ctypes.util
import os


def draw_without_display() -> None:
  """Makes MuJoCo draw through EGL; must be called before MuJoCo is imported.

  Its default, GLFW, needs a display, for videos and for tasks that draw
  themselves (dm_control's 'quadruped/escape'). A MUJOCO_GL of the user's stays.
  """
  if 'DISPLAY' not in os.environ and ctypes.util.find_library('EGL'):
    os.environ.setdefault('MUJOCO_GL', 'egl')
