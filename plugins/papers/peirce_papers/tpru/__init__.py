"""The tables of the recurrent unit TPRU: entailment, inference, and its transfer."""
