"""How MuJoCo draws on a machine without a display."""

import ctypes.util
import os


def draw_without_display() -> None:
  """Has MuJoCo draw through EGL; to be called before it is imported.

  GLFW, which comes first otherwise, needs a display: videos could not be made,
  and tasks that draw though nobody looks (dm_control's 'quadruped/escape') not
  be played. A user's own choice, the environment variable MUJOCO_GL, stays.
  """
  if 'DISPLAY' not in os.environ and ctypes.util.find_library('EGL'):
    os.environ.setdefault('MUJOCO_GL', 'egl')
