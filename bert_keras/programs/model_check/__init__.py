"""What check_model.py does."""
