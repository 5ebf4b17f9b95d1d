"""Pictures and tables of finished runs, beside the papers' scores.

May import `impala_tf` and `launch.run`.
"""
