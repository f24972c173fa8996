"""Tasks: data, loss and metric of one job each, and the loop that trains any of them."""
