"""The task `summarise`: short texts of long ones."""
