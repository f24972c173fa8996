"""CLUTRR: how two people are related, told by a story of k facts; train on few facts, test on more.

`stories` reads the published files, `task` is the task and `experiment` draws Fig. 5.
"""
