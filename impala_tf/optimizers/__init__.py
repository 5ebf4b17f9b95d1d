"""What an update keeps beside the agent: slots of optimisers, hyper-parameters.

May import `maths`, and of the modules outside of rooms config.
"""
