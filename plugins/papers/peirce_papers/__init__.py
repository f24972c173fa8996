"""The tables and figures of the papers behind Peirce; `peirce experiments` lists and runs them."""
