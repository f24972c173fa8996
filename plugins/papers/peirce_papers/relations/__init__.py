"""Networks of one size over relations, with exact problems and with two data sets of others."""
