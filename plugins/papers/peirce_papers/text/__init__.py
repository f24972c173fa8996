"""Networks of one size from scratch, on CLUTRR and on FOLIO."""
