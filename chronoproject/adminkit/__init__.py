"""What every admin page is made of; it knows no model. Pages live in each app's admin."""
