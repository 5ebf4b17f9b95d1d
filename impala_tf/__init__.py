"""IMPALA (Espeholt et al., 2018) in TensorFlow 2.

Importing the package imports no TensorFlow; each module imports what it needs.
"""

import os

__version__ = '0.1.0'

# TensorFlow switches oneDNN on by itself on some CPUs only; where it does not
# (AMD's), a learner update takes twice as long. Read at the first operation.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')
