"""Networks over relations: operators of relations, graphs of labelled edges as inputs, and what they are trained on."""
