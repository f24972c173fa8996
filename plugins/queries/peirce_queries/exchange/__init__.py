"""Files of other projects: graphs and queries with their answers, read and written."""
