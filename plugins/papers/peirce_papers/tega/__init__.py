"""The tables of TEGA as experiments: `tables.toml` says what they need, `running` does it, `report` shows it."""
