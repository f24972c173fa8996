"""A plug-in for Peirce: the architecture `averages`, the task `labelled_lines` and the exporter `arrays`.

Nothing is imported here, so that the runtime of exported files works without torch.
"""
