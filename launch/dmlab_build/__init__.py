"""The build of DeepMind Lab from its sources, without Bazel and network.

May import the standard library alone, and NumPy to find its headers.
"""
