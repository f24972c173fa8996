"""General parts: the transformer, recurrent networks, positions and heads that fit any text or sequence."""
