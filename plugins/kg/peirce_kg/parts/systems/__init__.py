"""Systems that execute queries themselves: BetaE, ConE, CQD and LMPNN."""
