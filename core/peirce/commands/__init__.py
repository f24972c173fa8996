"""The commands of the core, each imported when it runs."""
