"""Lists the packages; pyproject.toml has everything else."""

import setuptools

setuptools.setup(packages=[
    *setuptools.find_packages(include=['impala_tf', 'impala_tf.*']),
    'impala_tf.box', 'impala_tf.configs'])
